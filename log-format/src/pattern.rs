//! Patterns that name classes and methods, for options and reports.
//!
//! | pattern | names |
//! | --- | --- |
//! | `com.shop` | every class in the package and below it, the class of that name and its nested classes |
//! | `com.shop.Order.pay` | the methods `pay` of that class |
//! | `com.shop.*Dao` | by glob: `*` stands for anything within one name, `**` for anything with dots too |
//! | `**.get*` | a glob is matched against the class's name, then against `class.method` |
//! | `~com.sh` | every class whose name begins like this, ignoring case: TProfiler's prefixes |
//!
//! A pattern without a star ends on a name's boundary: `com.shop` does not name `com.shopping.X`. Patterns have dots;
//! the names matched against them may have either form, `com.shop.Order` or `com/shop/Order`.

use std::fmt;

use crate::error::BadValue;
use crate::writer::is_unprintable;

/// One pattern; see the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    text: String,
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    /// Names, without stars; ends on a name's boundary.
    Names,
    Glob(Vec<Token>),
    /// The beginning of a class's name, in lower case; matches ignore case.
    AnyCase(String),
}

/// What the class's name alone shows about its methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassMatch {
    /// No method of the class is named.
    None,
    /// It depends on the method's name.
    SomeMethods,
    /// Every method of the class is named.
    AllMethods,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    Char(char),
    /// `*`: any characters but a dot.
    Star,
    /// `**`: any characters.
    DoubleStar,
}

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// What is wrong with `text`.
    pub fn parse(text: &str) -> Result<Self, BadValue> {
        if text.contains('/') {
            // A line break in an option would split the message into two lines. Parameters are not part of a pattern.
            let name = text.split('(').next().unwrap_or_default();
            let (text, dotted) = (printable(text), printable(&name.replace('/', ".")));
            return Err(BadValue::new(text, format!("is not a pattern; use dots: {dotted}")));
        }
        if let Some(start) = text.strip_prefix('~') {
            return Self::any_case(start);
        }
        if text.starts_with('@') {
            let reason = "is not a pattern; only include and exclude take annotations";
            return Err(BadValue::new(printable(text), reason));
        }
        // Other tools write a prefix as "com.shop."; it means the same.
        let name = text.strip_suffix('.').unwrap_or(text);
        // `include==x` is a typo; it would silently name nothing.
        if name.split('.').any(str::is_empty)
            || name.contains(is_unusable)
            || name.starts_with('=')
            || name.trim() != name
        {
            return Err(BadValue::new(
                printable(text),
                "is not a pattern like com.shop, com.shop.*Dao or com.shop.Order.pay",
            ));
        }
        let kind = if name.contains('*') { Kind::Glob(tokens(name)) } else { Kind::Names };
        Ok(Self { text: name.to_owned(), kind })
    }

    /// The pattern that names every class whose name begins with `start`, ignoring case; `start` may end anywhere.
    ///
    /// # Errors
    /// What is wrong with `start`.
    pub fn any_case(start: &str) -> Result<Self, BadValue> {
        if start.is_empty() || start.contains(is_unusable) || start.trim() != start {
            let text = format!("~{}", printable(start));
            return Err(BadValue::new(text, "is not a pattern like ~com.shop"));
        }
        let kind = Kind::AnyCase(dotted(start).flat_map(char::to_lowercase).collect());
        Ok(Self { text: format!("~{start}"), kind })
    }

    /// The pattern as it was given, without a dot at its end.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it has stars or is a prefix, and so stands for names that it does not spell out.
    #[must_use]
    pub fn has_wildcards(&self) -> bool {
        !matches!(self.kind, Kind::Names)
    }

    /// What the pattern says of a class.
    #[must_use]
    pub fn class(&self, class: &str) -> ClassMatch {
        let glob = match &self.kind {
            Kind::Glob(glob) => glob,
            Kind::Names => {
                return match rest_after(&self.text, class) {
                    Rest::PatternIsPrefix => ClassMatch::AllMethods,
                    Rest::Method(_) => ClassMatch::SomeMethods,
                    Rest::Different => ClassMatch::None,
                };
            }
            Kind::AnyCase(start) if begins_in_any_case(class, start) => {
                return ClassMatch::AllMethods;
            }
            Kind::AnyCase(_) => return ClassMatch::None,
        };
        let mut matcher = Matcher::new(glob);
        matcher.feed(class);
        if matcher.accepts() {
            return ClassMatch::AllMethods;
        }
        matcher.feed(".");
        if matcher.is_alive() { ClassMatch::SomeMethods } else { ClassMatch::None }
    }

    /// Whether the pattern names this method of this class.
    #[must_use]
    pub fn method(&self, class: &str, method: &str) -> bool {
        let glob = match &self.kind {
            Kind::Glob(glob) => glob,
            Kind::Names => {
                return match rest_after(&self.text, class) {
                    Rest::PatternIsPrefix => true,
                    Rest::Method(name) => name == method,
                    Rest::Different => false,
                };
            }
            Kind::AnyCase(start) => return begins_in_any_case(class, start),
        };
        let mut matcher = Matcher::new(glob);
        matcher.feed(class);
        if matcher.accepts() {
            return true;
        }
        matcher.feed(".");
        matcher.feed(method);
        matcher.accepts()
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The text in one line.
fn printable(text: &str) -> String {
    text.replace(is_unprintable, "?")
}

/// Whether no name can have this character (JVMS 4.2.2), or it separates patterns in a list. Nearly all others occur
/// in names of other languages: Kotlin's tests have spaces.
fn is_unusable(c: char) -> bool {
    c.is_control() || matches!(c, ';' | '[' | ',')
}

/// A name's characters, in the form with dots.
fn dotted(name: &str) -> impl Iterator<Item = char> {
    name.chars().map(|c| if c == '/' { '.' } else { c })
}

/// Whether a class's name begins with `start`, ignoring case; `start` is in lower case.
fn begins_in_any_case(class: &str, start: &str) -> bool {
    let mut class = dotted(class).flat_map(char::to_lowercase);
    start.chars().all(|c| class.next() == Some(c))
}

/// How a pattern without stars relates to a class's name.
enum Rest<'p> {
    /// The pattern is the class, an enclosing class or a package above it.
    PatternIsPrefix,
    /// The pattern is the class's name and one more name.
    Method(&'p str),
    Different,
}

fn rest_after<'p>(pattern: &'p str, class: &str) -> Rest<'p> {
    let mut rest = pattern;
    for c in class.chars() {
        let c = if c == '/' { '.' } else { c };
        match rest.strip_prefix(c) {
            Some(shorter) => rest = shorter,
            None if rest.is_empty() && matches!(c, '.' | '$') => return Rest::PatternIsPrefix,
            None => return Rest::Different,
        }
    }
    match rest.strip_prefix('.') {
        _ if rest.is_empty() => Rest::PatternIsPrefix,
        Some(method) if !method.contains('.') => Rest::Method(method),
        _ => Rest::Different,
    }
}

fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::with_capacity(text.len());
    for c in text.chars() {
        match (c, tokens.last_mut()) {
            ('*', Some(last @ (Token::Star | Token::DoubleStar))) => *last = Token::DoubleStar,
            ('*', _) => tokens.push(Token::Star),
            _ => tokens.push(Token::Char(c)),
        }
    }
    tokens
}

/// Tries all ways to match at once, so that no pattern takes more than `tokens * characters` steps. Usually there are
/// one or two ways, or soon none.
struct Matcher<'g> {
    tokens: &'g [Token],
    /// The ways: each is the number of tokens that match the input so far. In rising order.
    states: Vec<usize>,
    next: Vec<usize>,
}

impl<'g> Matcher<'g> {
    fn new(tokens: &'g [Token]) -> Self {
        let mut matcher = Self { tokens, states: Vec::new(), next: Vec::new() };
        matcher.reach(0);
        std::mem::swap(&mut matcher.states, &mut matcher.next);
        matcher
    }

    /// Adds a state to the next ones. States come in rising order, except those that are already there.
    fn reach(&mut self, state: usize) {
        if self.next.last().is_some_and(|last| *last >= state) {
            return;
        }
        self.next.push(state);
        // A star may match nothing. Two stars never follow each other.
        if matches!(self.tokens.get(state), Some(Token::Star | Token::DoubleStar)) {
            self.next.push(state + 1);
        }
    }

    fn feed(&mut self, text: &str) {
        for c in text.chars() {
            if self.states.is_empty() {
                return;
            }
            let c = if c == '/' { '.' } else { c };
            self.next.clear();
            for index in 0..self.states.len() {
                let Some(state) = self.states.get(index).copied() else { break };
                match self.tokens.get(state) {
                    Some(Token::DoubleStar) => self.reach(state),
                    Some(Token::Star) if c != '.' => self.reach(state),
                    Some(Token::Char(expected)) if *expected == c => self.reach(state + 1),
                    _ => {}
                }
            }
            std::mem::swap(&mut self.states, &mut self.next);
        }
    }

    fn accepts(&self) -> bool {
        self.states.last() == Some(&self.tokens.len())
    }

    fn is_alive(&self) -> bool {
        !self.states.is_empty()
    }
}

/// Includes and excludes together. Exclude wins; without an include, everything is included.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// What to include.
    pub include: Vec<Pattern>,
    /// What to exclude from that.
    pub exclude: Vec<Pattern>,
}

impl Filter {
    /// What the filter says of a class.
    #[must_use]
    pub fn class(&self, class: &str) -> ClassMatch {
        let mut verdict =
            if self.include.is_empty() { ClassMatch::AllMethods } else { ClassMatch::None };
        for pattern in &self.include {
            match pattern.class(class) {
                ClassMatch::AllMethods => {
                    verdict = ClassMatch::AllMethods;
                    break;
                }
                ClassMatch::SomeMethods => verdict = ClassMatch::SomeMethods,
                ClassMatch::None => {}
            }
        }
        if verdict == ClassMatch::None {
            return verdict;
        }
        for pattern in &self.exclude {
            match pattern.class(class) {
                ClassMatch::AllMethods => return ClassMatch::None,
                ClassMatch::SomeMethods => verdict = ClassMatch::SomeMethods,
                ClassMatch::None => {}
            }
        }
        verdict
    }

    /// Whether the filter includes this method of this class.
    #[must_use]
    pub fn method(&self, class: &str, method: &str) -> bool {
        let names = |p: &Pattern| p.method(class, method);
        (self.include.is_empty() || self.include.iter().any(names))
            && !self.exclude.iter().any(names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Pattern {
        Pattern::parse(text).unwrap()
    }

    #[test]
    fn a_prefix_ends_on_a_boundary() {
        let p = pattern("com.shop");
        for class in ["com.shop.Order", "com/shop/cart/Cart", "com.shop", "com.shop$Inner"] {
            assert_eq!(p.class(class), ClassMatch::AllMethods, "{class}");
        }
        for class in ["com.shopping.X", "org.com.shop.X", "com.sho"] {
            assert_eq!(p.class(class), ClassMatch::None, "{class}");
        }
        assert_eq!(pattern("com.shop.").class("com.shop.Order"), ClassMatch::AllMethods);
    }

    #[test]
    fn a_prefix_may_end_in_a_method() {
        let p = pattern("com.shop.Order.pay");
        assert_eq!(p.class("com/shop/Order"), ClassMatch::SomeMethods);
        assert!(p.method("com/shop/Order", "pay"));
        assert!(!p.method("com/shop/Order", "payAll"));
        assert!(!p.method("com/shop/Order$Line", "pay"));
        assert!(pattern("com.shop.Order.<init>").method("com.shop.Order", "<init>"));
        assert_eq!(p.class("com/shop"), ClassMatch::None);
    }

    #[test]
    fn a_prefix_in_any_case_ends_anywhere() {
        let p = pattern("~com.Shop.Ord");
        for class in ["com.shop.Order", "COM/SHOP/order/X", "com.shop.ord"] {
            assert_eq!(p.class(class), ClassMatch::AllMethods, "{class}");
            assert!(p.method(class, "pay"), "{class}");
        }
        for class in ["com.shop.Or", "org.com.shop.Order", "com.shop.Pay"] {
            assert_eq!(p.class(class), ClassMatch::None, "{class}");
            assert!(!p.method(class, "pay"), "{class}");
        }
        assert_eq!(pattern("~com.shop.").class("com.shopping.X"), ClassMatch::None);
        assert_eq!(p.as_str(), "~com.Shop.Ord");
        for text in ["~", "~ com", "~com;org"] {
            let error = Pattern::parse(text).unwrap_err().to_string();
            assert_eq!(error, format!("'{text}' is not a pattern like ~com.shop"));
        }
    }

    #[test]
    fn stars_match_within_a_name_and_double_stars_across() {
        for (text, class, expected) in [
            ("com.shop.*Dao", "com.shop.OrderDao", ClassMatch::AllMethods),
            ("com.shop.*Dao", "com.shop.sub.OrderDao", ClassMatch::None),
            ("com.shop.**Dao", "com.shop.sub.OrderDao", ClassMatch::AllMethods),
            ("com.*.Order", "com.shop.Order", ClassMatch::AllMethods),
            ("com.*.Order", "com.a.b.Order", ClassMatch::None),
            ("**", "a.b.C", ClassMatch::AllMethods),
            ("***", "a.b.C", ClassMatch::AllMethods),
            ("*", "C", ClassMatch::AllMethods),
            ("*", "a.C", ClassMatch::None),
            ("*.*", "a.C", ClassMatch::AllMethods),
            ("com.shop.*Dao.find*", "com.shop.OrderDao", ClassMatch::SomeMethods),
            ("com.shop.*Dao.find*", "com.shop.Order", ClassMatch::None),
            ("*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", ClassMatch::None),
        ] {
            assert_eq!(pattern(text).class(class), expected, "{text} on {class}");
        }
        let p = pattern("com.shop.*Dao.find*");
        assert!(p.method("com/shop/OrderDao", "findAll"));
        assert!(!p.method("com/shop/OrderDao", "store"));
        assert!(pattern("**.get*").method("a.b.C", "getName"));
        assert!(!pattern("**.get*").method("a.b.C", "name"));
    }

    #[test]
    fn exclude_wins_and_no_include_names_everything() {
        let filter = |include: &[&str], exclude: &[&str]| Filter {
            include: include.iter().map(|p| pattern(p)).collect(),
            exclude: exclude.iter().map(|p| pattern(p)).collect(),
        };
        let f = filter(&["com.shop"], &["com.shop.util", "com.shop.Order.toString"]);
        assert_eq!(f.class("com.shop.cart.Cart"), ClassMatch::AllMethods);
        assert_eq!(f.class("com.shop.util.Text"), ClassMatch::None);
        assert_eq!(f.class("com.shop.Order"), ClassMatch::SomeMethods);
        assert!(f.method("com.shop.Order", "pay"));
        assert!(!f.method("com.shop.Order", "toString"));
        assert_eq!(f.class("org.x.Y"), ClassMatch::None);
        assert_eq!(filter(&[], &[]).class("org.x.Y"), ClassMatch::AllMethods);
        assert!(filter(&[], &[]).method("org.x.Y", "z"));
    }

    #[test]
    fn what_is_no_pattern_is_refused_with_its_text() {
        for text in
            ["", ".", "com..shop", ".com", " com", "com ", "com .", "com.shop;", "a,b", "[I", "=x"]
        {
            let error = Pattern::parse(text).unwrap_err();
            assert!(
                error.to_string().starts_with(&format!("'{text}' is not a pattern like ")),
                "{error}"
            );
        }
        let error = Pattern::parse("com.shop\nx").unwrap_err();
        assert!(error.to_string().starts_with("'com.shop?x' is not a pattern like "), "{error}");
        let error = Pattern::parse("com/shop/Order").unwrap_err();
        assert_eq!(
            error.to_string(),
            "'com/shop/Order' is not a pattern; use dots: com.shop.Order"
        );
        let error = Pattern::parse("a.Order.pay(ILjava/lang/String;)Z").unwrap_err();
        assert!(error.to_string().ends_with(" is not a pattern; use dots: a.Order.pay"), "{error}");
    }

    #[test]
    fn names_of_other_languages_are_patterns() {
        for method in ["an order is paid", "a=b", "$colon$eq", "pay-impl", "größe", "=="] {
            let p = pattern(&format!("com.shop.OrderTest.{method}"));
            assert!(p.method("com/shop/OrderTest", method), "{method}");
        }
    }

    /// All texts of up to `length` of these characters.
    fn texts(characters: &str, length: usize) -> Vec<String> {
        let mut all = vec![String::new()];
        for _ in 0..length {
            let longer: Vec<String> = all
                .iter()
                .flat_map(|text| characters.chars().map(move |c| format!("{text}{c}")))
                .collect();
            all.extend(longer);
            all.sort();
            all.dedup();
        }
        all
    }

    fn matches(tokens: &[Token], text: &str) -> bool {
        let Some((token, rest)) = tokens.split_first() else { return text.is_empty() };
        let after = text.chars().next().map(|c| (c, &text[c.len_utf8()..]));
        match (token, after) {
            (Token::Char(expected), after) => {
                after.is_some_and(|(c, after)| c == *expected && matches(rest, after))
            }
            (star, Some((c, after))) if *star == Token::DoubleStar || c != '.' => {
                matches(rest, text) || matches(tokens, after)
            }
            _ => matches(rest, text),
        }
    }

    #[test]
    fn globs_match_what_their_definition_says() {
        let names = texts("ab.", 5);
        for pattern in texts("a.*", 5) {
            let tokens = tokens(&pattern);
            for name in &names {
                let mut matcher = Matcher::new(&tokens);
                matcher.feed(name);
                assert_eq!(matcher.accepts(), matches(&tokens, name), "{pattern} {name}");
                assert!(matcher.is_alive() || !matcher.accepts());
            }
        }
    }
}
