//! Methods in Java notation: `com.shop.Order.pay(int, String)`.
//!
//! Two methods never have the same label: if the simple names of the parameters' classes do not distinguish them, the
//! label has their full names and the result.

use log_format::descriptor::first_type;
use std::collections::HashMap;

use log_format::writer::one_line;

use crate::stats::method::{Callers, Method, MethodName};

/// Labels of the methods of a report.
pub struct Labels {
    /// How many methods would have each short label.
    short: HashMap<String, usize>,
}

impl Labels {
    /// Prepares labels for `methods`; a method may occur several times.
    pub fn new<'m>(methods: impl Iterator<Item = &'m Method>) -> Self {
        let distinct: std::collections::HashSet<&Method> = methods.collect();
        let mut short = HashMap::new();
        for method in distinct {
            if let Method::Named(name) = method {
                *short.entry(short_label(name)).or_default() += 1;
            }
        }
        Self { short }
    }

    /// The label of a method: class, method and parameters.
    pub fn of(&self, method: &Method) -> String {
        let Method::Named(name) = method else { return one_line(&method.parts().1) };
        let short = short_label(name);
        let label = match self.short.get(&short) {
            Some(2..) => long_label(name),
            _ => short,
        };
        one_line(&label)
    }

    /// The label without the package: `Order.pay(int, String)`.
    pub fn without_package(&self, method: &Method) -> String {
        let label = self.of(method);
        let class = method.parts().0;
        let package = class.len() - simple(class).len();
        match label.get(package..) {
            Some(rest) if label.starts_with(class) => rest.to_owned(),
            _ => label,
        }
    }

    /// The label without the package; if it is longer than `width`, without the parameters too: `Order.pay(...)`.
    pub fn fitting(&self, method: &Method, width: usize) -> String {
        let label = self.without_package(method);
        match label.split_once('(') {
            Some((name, _)) if label.chars().count() > width => format!("{name}(...)"),
            _ => label,
        }
    }
}

/// The simple name of the class and the method, `Order.pay`, for call paths.
pub fn brief(method: &Method) -> String {
    match method {
        Method::Named(name) => one_line(&format!("{}.{}", simple(&name.class), name.method)),
        Method::Unknown { id, .. } => format!("method #{id}"),
    }
}

/// The call path from the outermost known caller to the nearest; empty if there is none.
pub fn path(callers: &Callers) -> String {
    nearest(callers, usize::MAX)
}

/// The end of that path, with at most `most` callers.
pub fn nearest(callers: &Callers, most: usize) -> String {
    let is_cut = callers.has_more || callers.methods.len() > most;
    let cut = is_cut.then(|| "...".to_owned());
    let names: Vec<String> = callers.methods.iter().take(most).map(brief).collect();
    cut.into_iter().chain(names.into_iter().rev()).collect::<Vec<String>>().join(" > ")
}

/// Whether a text is the descriptor of a method.
pub fn is_descriptor(text: &str) -> bool {
    Signature::parse(text).is_some()
}

fn short_label(name: &MethodName) -> String {
    match Signature::parse(&name.descriptor) {
        Some(signature) => {
            let parameters: Vec<&str> = signature.parameters.iter().map(|p| simple(p)).collect();
            format!("{}.{}({})", name.class, name.method, parameters.join(", "))
        }
        // Not a method, but what else used CPU time: `[gc]`.
        None if name.class.is_empty() => name.method.clone() + &name.descriptor,
        None => format!("{}.{}{}", name.class, name.method, name.descriptor),
    }
}

fn long_label(name: &MethodName) -> String {
    match Signature::parse(&name.descriptor) {
        Some(Signature { parameters, result }) => {
            format!("{}.{}({}): {result}", name.class, name.method, parameters.join(", "))
        }
        None => format!("{}.{}{}", name.class, name.method, name.descriptor),
    }
}

/// A class name without its package. The dots of an array's or a nested class's name stay.
pub(crate) fn simple(class: &str) -> &str {
    class.rsplit_once('.').map_or(class, |(_, simple)| simple)
}

/// A descriptor (JVM specification 4.3.3) in Java notation.
struct Signature {
    parameters: Vec<String>,
    result: String,
}

impl Signature {
    fn parse(descriptor: &str) -> Option<Self> {
        let (mut rest, result) = descriptor.strip_prefix('(')?.split_once(')')?;
        let mut parameters = Vec::new();
        while !rest.is_empty() {
            let (parameter, after) = first_type(rest)?;
            parameters.push(parameter);
            rest = after;
        }
        let result = match result {
            "V" => "void".to_owned(),
            _ => first_type(result).filter(|(_, after)| after.is_empty())?.0,
        };
        Some(Self { parameters, result })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use log_format::ids::MethodId;

    use super::*;

    fn method(descriptor: &str) -> Method {
        Method::Named(Arc::new(MethodName {
            class: "com.shop.Order".into(),
            method: "pay".into(),
            descriptor: descriptor.into(),
        }))
    }

    fn labels(descriptors: &[&str]) -> Vec<String> {
        let methods: Vec<Method> = descriptors.iter().map(|d| method(d)).collect();
        let labels = Labels::new(methods.iter().chain(&methods));
        methods.iter().map(|m| labels.of(m)).collect()
    }

    #[test]
    fn descriptors_are_written_in_java() {
        for (descriptor, parameters) in [
            ("()V", "()"),
            ("(ILjava/lang/String;)V", "(int, String)"),
            ("([[J[Ljava/util/Map$Entry;Z)I", "(long[][], Map$Entry[], boolean)"),
        ] {
            assert_eq!(labels(&[descriptor]), [format!("com.shop.Order.pay{parameters}")]);
        }
    }

    #[test]
    fn what_is_no_descriptor_is_shown_as_it_is() {
        for text in ["", "(", "()", "()VV", "(Lx)V", "(é)V", "(Q)V", "([)V", "junk"] {
            assert_eq!(labels(&[text]), [format!("com.shop.Order.pay{text}")]);
        }
    }

    #[test]
    fn methods_that_simple_names_confuse_get_full_ones() {
        assert_eq!(
            labels(&["(La/Key;)V", "(Lb/Key;)V", "()Ljava/lang/Object;", "()I", "(I)I"]),
            [
                "com.shop.Order.pay(a.Key): void",
                "com.shop.Order.pay(b.Key): void",
                "com.shop.Order.pay(): java.lang.Object",
                "com.shop.Order.pay(): int",
                "com.shop.Order.pay(int)",
            ]
        );
    }

    #[test]
    fn a_label_that_does_not_fit_has_no_parameters() {
        let method = method("(ILjava/util/Map;)V");
        let labels = Labels::new(std::iter::once(&method));
        assert_eq!(labels.fitting(&method, 19), "Order.pay(int, Map)");
        assert_eq!(labels.fitting(&method, 18), "Order.pay(...)");
    }

    #[test]
    fn a_way_ends_with_the_nearest_callers() {
        let ids = (1..=3).map(MethodId::new);
        let methods = ids.map(|id| Method::Unknown { run: "r".into(), id }).collect();
        let mut callers = Callers { methods, has_more: false };
        assert_eq!(path(&callers), "method #3 > method #2 > method #1");
        assert_eq!(nearest(&callers, 2), "... > method #2 > method #1");
        callers.has_more = true;
        assert_eq!(nearest(&callers, 3), "... > method #3 > method #2 > method #1");
        assert_eq!(path(&Callers::default()), "");
    }

    #[test]
    fn a_method_of_a_path_has_no_package() {
        assert_eq!(brief(&method("(I)V")), "Order.pay");
        assert_eq!(brief(&Method::Unknown { run: "r".into(), id: MethodId::new(7) }), "method #7");
    }
}
