//! Which classes and methods the options name: patterns, annotations, class loaders, code.
//!
//! What an exclude names is always excluded. What an include names is instrumented; without an include, the
//! application's classes are. Annotations are looked for in the application's classes.

use std::fmt;

use log_format::error::BadValue;
use log_format::method_state::MethodState;
use log_format::pattern::{ClassMatch, Pattern};
use log_format::writer::is_unprintable;
use rewriter::{ClassInfo, MethodInfo, Mutf8};

/// Classes that are excluded unless an include names them: other agents, and proxies whose methods
/// only pass a call on. `docs/options.md` lists them.
pub const DEFAULT_EXCLUDES: [&str; 21] = [
    "com.taobao.profile",
    "com.taobao.arthas",
    "com.alibaba.arthas",
    "com.navercorp.pinpoint",
    "com.newrelic.agent",
    "com.dynatrace",
    "com.appdynamics",
    "co.elastic.apm.agent",
    "datadog.trace",
    "io.github.tprofiler",
    "io.opentelemetry.javaagent",
    "org.apache.skywalking.apm",
    "org.jacoco.agent.rt",
    "one.profiler",
    "**$$EnhancerBy**",
    "**$$FastClassBy**",
    "**$$SpringCGLIB$$**",
    "**$ByteBuddy$**",
    "**$HibernateProxy$**",
    "**_$$_jvst**",
    "**.$Proxy*",
];

/// An annotation as options name it: `@com.shop.Timed`, stars as in patterns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Annotation {
    /// With the `@`.
    text: String,
    /// The annotation's class.
    pattern: Pattern,
}

impl Annotation {
    /// Reads an annotation; `None` if the text does not begin with `@`.
    ///
    /// # Errors
    /// What is wrong with `text`.
    pub fn parse(text: &str) -> Result<Option<Self>, BadValue> {
        let Some(name) = text.strip_prefix('@') else { return Ok(None) };
        match Pattern::parse(name) {
            Ok(pattern) if !name.ends_with('.') && !name.starts_with('~') => {
                Ok(Some(Self { text: text.to_owned(), pattern }))
            }
            _ => {
                let text = text.replace(is_unprintable, "?");
                Err(BadValue::new(text, "is not an annotation like @com.shop.Timed"))
            }
        }
    }

    /// Whether it is the annotation with this descriptor, `Lcom/shop/Timed;`.
    pub(crate) fn is(&self, descriptor: Mutf8<'_>) -> bool {
        let descriptor = descriptor.to_str();
        let class = descriptor.strip_prefix('L').and_then(|d| d.strip_suffix(';'));
        class.is_some_and(|class| names_class(&self.pattern, class))
    }
}

impl fmt::Display for Annotation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Whether a pattern names just this class: without stars it must not be a package that contains the class.
fn names_class(pattern: &Pattern, class: &str) -> bool {
    let text = pattern.as_str();
    let is_whole = text.len() == class.len() || text.contains('*') || text.starts_with('~');
    is_whole && pattern.class(class) == ClassMatch::AllMethods
}

/// What the options say about classes and methods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filters {
    /// Classes and methods to instrument.
    pub include: Vec<Pattern>,
    /// Classes and methods with one of these are instrumented too.
    pub include_annotations: Vec<Annotation>,
    /// Classes and methods to exclude.
    pub exclude: Vec<Pattern>,
    /// Classes and methods with one of these are excluded.
    pub exclude_annotations: Vec<Annotation>,
    /// Loaders whose classes are excluded.
    pub exclude_loaders: Vec<Pattern>,
    /// Whether methods that only read or write a field are instrumented.
    pub accessors: bool,
    /// Whether trivial leaves are instrumented; see [`MethodInfo::is_straight_line`].
    pub leaves: bool,
    /// Methods with less code, in bytes, are excluded.
    pub min_code: u32,
}

impl Default for Filters {
    fn default() -> Self {
        Self {
            include: Vec::new(),
            include_annotations: Vec::new(),
            exclude: Vec::new(),
            exclude_annotations: Vec::new(),
            exclude_loaders: Vec::new(),
            accessors: true,
            leaves: false,
            min_code: 0,
        }
    }
}

/// What a class's name alone decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ByName<'f> {
    /// Its methods may be instrumented.
    Selected(Selected),
    /// No include names it.
    NotIncluded,
    /// This exclude names it.
    Excluded(&'f Pattern),
    /// It is excluded by default, by this pattern.
    ByDefault(&'static str),
}

impl fmt::Display for ByName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Selected(_) => f.write_str("selected"),
            Self::NotIncluded => f.write_str("excluded, no include matches it"),
            Self::Excluded(pattern) => write!(f, "excluded, exclude={pattern}"),
            Self::ByDefault(pattern) => write!(f, "excluded by default, {pattern}"),
        }
    }
}

/// What a class's name says about its methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Selected {
    /// An include names the class or some of its methods. If not, it is instrumented only if it is one of the
    /// application's.
    pub is_included: bool,
    /// Every method is named, and none excluded by name.
    pub all_methods: bool,
}

impl Filters {
    /// Whether there is an include.
    pub(crate) fn has_include(&self) -> bool {
        !self.include.is_empty() || !self.include_annotations.is_empty()
    }

    pub(crate) fn by_name(&self, class: &str, defaults: &DefaultExcludes) -> ByName<'_> {
        let mut included = ClassMatch::None;
        for pattern in &self.include {
            match pattern.class(class) {
                ClassMatch::AllMethods => {
                    included = ClassMatch::AllMethods;
                    break;
                }
                ClassMatch::SomeMethods => included = ClassMatch::SomeMethods,
                ClassMatch::None => {}
            }
        }
        let is_included = included != ClassMatch::None;
        if self.has_include() && !is_included && self.include_annotations.is_empty() {
            return ByName::NotIncluded;
        }
        let mut all_methods = included == ClassMatch::AllMethods || !self.has_include();
        for pattern in &self.exclude {
            match pattern.class(class) {
                ClassMatch::AllMethods => return ByName::Excluded(pattern),
                ClassMatch::SomeMethods => all_methods = false,
                ClassMatch::None => {}
            }
        }
        match defaults.pattern_for(class, &self.include) {
            Some(default) => ByName::ByDefault(default),
            None => ByName::Selected(Selected { is_included, all_methods }),
        }
    }

    /// The exclude that names a loader, as the log names it, or by its class where the log has another name.
    pub(crate) fn excluded_loader(&self, loader: &str, class: Option<&str>) -> Option<&Pattern> {
        let is = |pattern: &&Pattern| {
            let names = |name: &str| names_class(pattern, name);
            // Loaders of one class are distinguished by a number.
            let of_class = loader.rsplit_once('#').map_or(loader, |(class, _)| class);
            names(of_class) || names(loader) || class.is_some_and(names)
        };
        self.exclude_loaders.iter().find(is)
    }
}

/// The default excludes, ready for use.
#[derive(Debug)]
pub(crate) struct DefaultExcludes(Vec<(&'static str, Pattern)>);

impl DefaultExcludes {
    pub(crate) fn new() -> Self {
        let pattern = |text: &'static str| Some((text, Pattern::parse(text).ok()?));
        Self(DEFAULT_EXCLUDES.iter().filter_map(|text| pattern(text)).collect())
    }

    /// The default exclude that names a class, unless one of `include` is meant for such classes: then the exclude
    /// matches the include's own text.
    fn pattern_for(&self, class: &str, include: &[Pattern]) -> Option<&'static str> {
        let names = |pattern: &Pattern, class: &str| pattern.class(class) == ClassMatch::AllMethods;
        let (text, default) = self.0.iter().find(|(_, default)| names(default, class))?;
        let is_wanted = |include: &Pattern| {
            include.class(class) != ClassMatch::None
                && names(default, include.as_str().trim_start_matches('~'))
        };
        (!include.iter().any(is_wanted)).then_some(text)
    }
}

/// The decision on the methods of one class, one after the other.
pub(crate) struct ClassDecision<'f> {
    filters: &'f Filters,
    selected: Selected,
    /// Whether the class has an annotation of an include, and one of an exclude; once it is known.
    annotated: Option<(bool, bool)>,
}

impl<'f> ClassDecision<'f> {
    pub(crate) fn new(filters: &'f Filters, selected: Selected) -> Self {
        Self { filters, selected, annotated: None }
    }

    /// The state of a method that is not to be instrumented.
    pub(crate) fn leaves_out(
        &mut self,
        class: &ClassInfo<'_>,
        method: &MethodInfo<'_>,
    ) -> Option<MethodState> {
        let Filters { include, include_annotations, exclude, exclude_annotations, .. } =
            self.filters;
        if !self.selected.all_methods {
            let (class_name, name) = (class.name.to_str(), method.name.to_str());
            let names = |p: &Pattern| p.method(&class_name, &name);
            let is_included = !self.filters.has_include()
                || include.iter().any(names)
                || self.class_annotated(class).0
                || has_one(include_annotations, method);
            if !is_included {
                return Some(MethodState::NotIncluded);
            }
            if exclude.iter().any(names) {
                return Some(MethodState::Excluded);
            }
        }
        if self.class_annotated(class).1 || has_one(exclude_annotations, method) {
            return Some(MethodState::Excluded);
        }
        if !self.filters.accessors && method.is_trivial_accessor() {
            return Some(MethodState::Accessor);
        }
        if method.code_length() < self.filters.min_code as usize {
            return Some(MethodState::Short);
        }
        let is_leaf = !self.filters.leaves && method.is_straight_line();
        (is_leaf && !self.is_asked_for(class, method)).then_some(MethodState::TrivialLeaf)
    }

    /// Whether an include is this one method's name.
    fn is_asked_for(&self, class: &ClassInfo<'_>, method: &MethodInfo<'_>) -> bool {
        let name = format!("{}.{}", class.name.to_str().replace('/', "."), method.name.to_str());
        self.filters.include.iter().any(|pattern| pattern.as_str() == name)
    }

    fn class_annotated(&mut self, class: &ClassInfo<'_>) -> (bool, bool) {
        let Filters { include_annotations, exclude_annotations, .. } = self.filters;
        if include_annotations.is_empty() && exclude_annotations.is_empty() {
            return (false, false);
        }
        *self.annotated.get_or_insert_with(|| {
            let has = |list: &[Annotation]| {
                class.annotations().any(|found| list.iter().any(|a| a.is(found)))
            };
            (has(include_annotations), has(exclude_annotations))
        })
    }
}

fn has_one(list: &[Annotation], method: &MethodInfo<'_>) -> bool {
    !list.is_empty() && method.annotations().any(|found| list.iter().any(|a| a.is(found)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filters(include: &[&str], exclude: &[&str]) -> Filters {
        let patterns =
            |list: &[&str]| list.iter().map(|p| Pattern::parse(p).unwrap()).collect::<Vec<_>>();
        Filters { include: patterns(include), exclude: patterns(exclude), ..Filters::default() }
    }

    fn selected(is_included: bool, all_methods: bool) -> ByName<'static> {
        ByName::Selected(Selected { is_included, all_methods })
    }

    #[test]
    fn names_decide_as_far_as_they_can() {
        let defaults = DefaultExcludes::new();
        assert_eq!(defaults.0.len(), DEFAULT_EXCLUDES.len());
        let f = filters(&["com.shop", "org.x.Y.z"], &["com.shop.util", "com.shop.Order.toString"]);
        for (class, expected) in [
            ("com/shop/Cart", selected(true, true)),
            ("com/shop/Order", selected(true, false)),
            ("org/x/Y", selected(true, false)),
            ("org/x/Z", ByName::NotIncluded),
            ("com/shop/util/Text", ByName::Excluded(&f.exclude[0])),
        ] {
            assert_eq!(f.by_name(class, &defaults), expected, "{class}");
        }
        let all = filters(&[], &["com.shop.util"]);
        assert_eq!(all.by_name("com/shop/Cart", &defaults), selected(false, true));
        let annotated = Filters {
            include_annotations: vec![Annotation::parse("@a.B").unwrap().unwrap()],
            ..filters(&["com.shop"], &[])
        };
        assert_eq!(annotated.by_name("org/x/Y", &defaults), selected(false, false));
        assert_eq!(annotated.by_name("com/shop/Cart", &defaults), selected(true, true));
    }

    #[test]
    fn an_include_about_such_classes_beats_a_default() {
        let defaults = DefaultExcludes::new();
        let proxy = "com/shop/Order$$EnhancerBySpringCGLIB$$1a";
        let by_default = ByName::ByDefault("**$$EnhancerBy**");
        for (include, expected) in [
            ("com.shop", by_default),
            ("com.shop.*", by_default),
            ("com.shop.Order$$EnhancerBySpringCGLIB$$1a", selected(true, true)),
            ("com.shop.Order$$EnhancerBySpringCGLIB$$1a.pay", selected(true, false)),
            ("**$$EnhancerBySpring*", selected(true, true)),
            ("~com.shop.Order$$EnhancerBy", selected(true, true)),
        ] {
            let f = filters(&[include], &[]);
            // Borrowed from what is dropped here.
            let matches = f.by_name(proxy, &defaults) == expected;
            assert!(matches, "{include}");
        }
        for class in
            ["one/profiler/AsyncProfiler", "jdk/proxy2/$Proxy7", "com/shop/A$HibernateProxy$x"]
        {
            assert!(
                matches!(filters(&[], &[]).by_name(class, &defaults), ByName::ByDefault(_)),
                "{class}"
            );
        }
        for class in ["com/shop/Order$ProxyBuilder", "one/profilers/X"] {
            assert_eq!(
                filters(&[], &[]).by_name(class, &defaults),
                selected(false, true),
                "{class}"
            );
        }
    }

    #[test]
    fn a_loader_is_named_by_its_class_or_as_it_is_logged() {
        let excludes = |pattern: &str, name: &str| {
            let f = Filters {
                exclude_loaders: vec![Pattern::parse(pattern).unwrap()],
                ..Filters::default()
            };
            let class =
                (name == "app").then_some("jdk.internal.loader.ClassLoaders$AppClassLoader");
            f.excluded_loader(name, class).is_some()
        };
        assert!(excludes("com.shop.Loader", "com.shop.Loader#7"));
        assert!(excludes("com.shop.Loader#7", "com.shop.Loader#7"));
        assert!(excludes("**.*Loader", "com.shop.Loader#7"));
        assert!(!excludes("com.shop", "com.shop.Loader#7"));
        assert!(!excludes("com.shop.Loader", "com.shop.Loader$Child#7"));
        assert!(excludes("app", "app"));
        assert!(excludes("jdk.internal.loader.ClassLoaders$AppClassLoader", "app"));
    }

    #[test]
    fn an_annotation_is_a_class_or_a_glob() {
        let is = |text: &str, descriptor: &str| {
            let annotation = Annotation::parse(text).unwrap().expect("an annotation");
            annotation.is(Mutf8(descriptor.as_bytes()))
        };
        assert!(is("@com.shop.Timed", "Lcom/shop/Timed;"));
        assert!(!is("@com.shop", "Lcom/shop/Timed;"));
        assert!(!is("@com.shop.Timed", "Lcom/shop/Timed$Inner;"));
        assert!(is("@**.Timed", "Lcom/shop/Timed;"));
        assert!(!is("@com.shop.Timed", "com/shop/Timed"));
        assert_eq!(Annotation::parse("com.shop.Timed"), Ok(None));
        for text in ["@", "@a..b", "@~a", "@a.", "@a;b"] {
            assert!(Annotation::parse(text).is_err(), "{text}");
        }
    }
}
