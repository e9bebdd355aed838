//! Explains why nothing is instrumented: which includes matched nothing, and which names are nearest to them.
//!
//! It keeps only the nearest few of all names. Once every include has matched something, it compares nothing any more.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use log_format::pattern::{ClassMatch, Pattern};
use log_format::writer::is_unprintable;
use rewriter::Mutf8;
use strsim::osa_distance;

use crate::options::filters::{Annotation, Filters};

/// Names that are kept for each include.
const NEAREST: usize = 3;
/// Includes that get a message.
const MAX_MESSAGES: usize = 20;
/// Names longer than this are not compared letter by letter.
const MAX_COMPARED: usize = 32;

/// The includes, and what each has matched.
#[derive(Debug)]
pub(crate) struct WhyEmpty {
    includes: Vec<Include>,
    unmet: AtomicUsize,
}

#[derive(Debug)]
struct Include {
    named: Named,
    /// What names are compared with: its text up to the first star.
    wanted: String,
    is_met: AtomicBool,
    /// The nearest names, each with how near it is; the nearest first.
    nearest: Mutex<Vec<(u32, String)>>,
}

#[derive(Debug)]
enum Named {
    Pattern(Pattern),
    Annotation(Annotation),
}

impl WhyEmpty {
    pub(crate) fn new(filters: &Filters) -> Self {
        let patterns = filters.include.iter().cloned().map(Named::Pattern);
        let annotations = filters.include_annotations.iter().cloned().map(Named::Annotation);
        let includes: Vec<Include> = patterns.chain(annotations).map(Include::new).collect();
        Self { unmet: AtomicUsize::new(includes.len()), includes }
    }

    /// Includes that have matched nothing.
    fn unmet(&self) -> impl Iterator<Item = &Include> {
        let is_done = self.unmet.load(Ordering::Relaxed) == 0;
        let includes = if is_done { &[][..] } else { &self.includes };
        includes.iter().filter(|include| !include.is_met.load(Ordering::Relaxed))
    }

    fn meet(&self, include: &Include) {
        if !include.is_met.swap(true, Ordering::Relaxed) {
            self.unmet.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Takes the name of a class.
    pub(crate) fn class(&self, name: &str) {
        for include in self.unmet() {
            let Named::Pattern(pattern) = &include.named else { continue };
            match pattern.class(name) {
                ClassMatch::AllMethods => self.meet(include),
                _ => include.offer(name),
            }
        }
    }

    /// Takes a method of a class whose name alone does not decide.
    pub(crate) fn method(&self, class: &str, method: &str) {
        for include in self.unmet() {
            let Named::Pattern(pattern) = &include.named else { continue };
            if pattern.method(class, method) {
                self.meet(include);
            } else if pattern.class(class) != ClassMatch::None {
                include.offer(&format!("{class}.{method}"));
            }
        }
    }

    /// Takes annotations, as descriptors.
    pub(crate) fn annotations<'a, I: Iterator<Item = Mutf8<'a>>>(&self, found: impl Fn() -> I) {
        for include in self.unmet() {
            let Named::Annotation(annotation) = &include.named else { continue };
            for descriptor in found() {
                if annotation.is(descriptor) {
                    self.meet(include);
                    break;
                }
                let name = descriptor.to_str();
                include.offer(name.trim_start_matches('L').trim_end_matches(';'));
            }
        }
    }

    /// The messages for when no class is instrumented, one line each.
    pub(crate) fn messages(&self) -> Vec<String> {
        let mut messages: Vec<String> = self.unmet().map(Include::message).collect();
        if messages.is_empty() && !self.includes.is_empty() {
            let why =
                "every class that an include matches is excluded or has no method to instrument";
            messages.push(format!("{why}; debug=classes tells which and why"));
        }
        if messages.len() > MAX_MESSAGES {
            let more = messages.len() - MAX_MESSAGES;
            messages.truncate(MAX_MESSAGES);
            messages.push(format!("{more} more includes met nothing"));
        }
        messages
    }
}

impl Include {
    fn new(named: Named) -> Self {
        let text = match &named {
            Named::Pattern(pattern) => pattern.to_string(),
            Named::Annotation(annotation) => annotation.to_string(),
        };
        let wanted = text.trim_start_matches(['~', '@']);
        let wanted = wanted.split('*').next().unwrap_or_default().to_owned();
        Self { named, wanted, is_met: AtomicBool::new(false), nearest: Mutex::default() }
    }

    /// Keeps a name if it is among the nearest.
    fn offer(&self, name: &str) {
        // Of lambdas and proxies: nobody means them.
        if name.contains("$$") {
            return;
        }
        let how_near = how_near(&self.wanted, name);
        if how_near == 0 {
            return;
        }
        let mut nearest = self.nearest.lock().unwrap_or_else(PoisonError::into_inner);
        let place = nearest.partition_point(|(known, _)| *known >= how_near);
        let name = name.replace('/', ".");
        if place < NEAREST && !nearest.iter().any(|(_, known)| *known == name) {
            nearest.insert(place, (how_near, name));
            nearest.truncate(NEAREST);
        }
    }

    fn message(&self) -> String {
        let (text, what) = match &self.named {
            Named::Pattern(pattern) => (pattern.to_string(), "class"),
            Named::Annotation(annotation) => (annotation.to_string(), "annotation"),
        };
        let nearest = self.nearest.lock().unwrap_or_else(PoisonError::into_inner);
        let names: Vec<&str> = nearest.iter().map(|(_, name)| &**name).collect();
        match names.is_empty() {
            true => format!("include={text} has met no {what} so far, nor one with a similar name"),
            false => {
                // A class file may have any name.
                let names = names.join(", ").replace(is_unprintable, "?");
                format!("include={text} has met no {what} so far; nearest: {names}")
            }
        }
    }
}

/// How near a class's name is to the one that is wanted; 0 if it is not near at all. Names are
/// compared part by part from the left, the first that differs letter by letter.
pub(super) fn how_near(wanted: &str, name: &str) -> u32 {
    let mut parts = name.split(['.', '/']);
    let mut equal = 0;
    let mut near = 0;
    for wanted in wanted.split('.').filter(|part| !part.is_empty()) {
        let Some(part) = parts.next() else { break };
        if !part.eq_ignore_ascii_case(wanted) {
            near = near_parts(wanted, part);
            break;
        }
        equal += if part == wanted { 100 } else { 99 };
    }
    // The same name in another package, or a class named without its package.
    let last = |name| str::rsplit(name, ['.', '/']).next().unwrap_or_default();
    let is_same = !last(wanted).is_empty() && last(wanted).eq_ignore_ascii_case(last(name));
    let same = if is_same { 250 } else { 0 };
    // Having only `com` in common does not count.
    if near == 0 && same == 0 && equal < 198 { 0 } else { equal + near + same }
}

/// How near two parts of names are: 0 if they differ in more than a typo.
fn near_parts(wanted: &str, part: &str) -> u32 {
    let allowed = if wanted.len() < 6 { 1 } else { 2 };
    if wanted.len().max(part.len()) > MAX_COMPARED || wanted.len().abs_diff(part.len()) > allowed {
        return 0;
    }
    match osa_distance(&wanted.to_ascii_lowercase(), &part.to_ascii_lowercase()) {
        d if d > allowed => 0,
        1 => 60,
        _ => 40,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn includes(texts: &[&str]) -> WhyEmpty {
        let mut filters = Filters::default();
        for text in texts {
            match Annotation::parse(text).unwrap() {
                Some(annotation) => filters.include_annotations.push(annotation),
                None => filters.include.push(Pattern::parse(text).unwrap()),
            }
        }
        WhyEmpty::new(&filters)
    }

    #[test]
    fn the_nearest_names_are_reported() {
        let classes = [
            "java/lang/String",
            "com/sun/proxy/X",
            "com/shop/Order",
            "com/shop/dao/OrderDao",
            "com/shop/Cart",
            "org/other/Invoice",
            "com/shop/Shelf",
            "com/shop/Order$$Lambda/0x00007f7a6c001000",
        ];
        for (include, nearest) in [
            ("com.shpo", "com.shop.Order, com.shop.dao.OrderDao, com.shop.Cart"),
            ("com.Shop.order", "com.shop.Order, com.shop.dao.OrderDao, com.shop.Cart"),
            ("com.shop.Invoice", "org.other.Invoice, com.shop.Order, com.shop.dao.OrderDao"),
            ("Order", "com.shop.Order"),
            ("com.shop.daos.*Dao", "com.shop.dao.OrderDao, com.shop.Order, com.shop.Cart"),
            ("~com.shopp", "com.shop.Order, com.shop.dao.OrderDao, com.shop.Cart"),
        ] {
            let why = includes(&[include]);
            for class in classes {
                why.class(class);
            }
            let message = format!("include={include} has met no class so far; nearest: {nearest}");
            assert_eq!(why.messages(), [message]);
        }
        let why = includes(&["net.nowhere", "com.elsewhere"]);
        for class in classes {
            why.class(class);
        }
        let message = |include: &str| {
            format!("include={include} has met no class so far, nor one with a similar name")
        };
        assert_eq!(why.messages(), ["net.nowhere", "com.elsewhere"].map(message));
    }

    #[test]
    fn methods_and_annotations_have_nearest_names_too() {
        let why = includes(&["com.shop.Order.pya", "@com.shop.Time"]);
        why.class("com/shop/Order");
        why.method("com/shop/Order", "pay");
        why.annotations(|| {
            [&b"Ljava/lang/Deprecated;"[..], b"Lcom/shop/Timed;"].into_iter().map(Mutf8)
        });
        assert_eq!(
            why.messages(),
            [
                "include=com.shop.Order.pya has met no class so far; nearest: com.shop.Order.pay, \
                 com.shop.Order",
                "include=@com.shop.Time has met no annotation so far; nearest: com.shop.Timed",
            ]
        );
        why.method("com/shop/Order", "pya");
        why.annotations(|| [Mutf8(b"Lcom/shop/Time;")].into_iter());
        assert_eq!(why.messages().len(), 1);
        assert!(why.messages()[0].starts_with("every class that an include matches is excluded"));
        assert!(includes(&[]).messages().is_empty());
    }
}
