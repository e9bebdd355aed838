//! Short names of methods and classes: finds the full name for `handleOrders`, `Order` or `Order.pay`, if exactly one
//! class of the logs has such a method or such a name.

use std::collections::BTreeSet;

use log_format::error::BadValue;
use log_format::pattern::Pattern;

use crate::stats::method::MethodName;

/// Names listed if a short name is ambiguous.
const SHOWN: usize = 10;

/// Finds the full name for a pattern that matches no method.
#[derive(Debug)]
pub struct ShortName<'p> {
    pattern: &'p Pattern,
    /// Whether the pattern matches a method as it is.
    is_named: bool,
    /// Full names that end in the pattern.
    candidates: BTreeSet<String>,
}

impl<'p> ShortName<'p> {
    /// A pattern with stars is not a short name.
    #[must_use]
    pub fn new(pattern: &'p Pattern) -> Self {
        let is_named = pattern.has_wildcards();
        Self { pattern, is_named, candidates: BTreeSet::new() }
    }

    /// Whether more names cannot change the result.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.is_named
    }

    /// Whether a name was found, so that weaker ones do not count.
    #[must_use]
    pub fn has_found(&self) -> bool {
        self.is_named || !self.candidates.is_empty()
    }

    /// Looks at a method of the logs.
    pub fn look_at(&mut self, name: &MethodName) {
        let MethodName { class, method, .. } = name;
        self.is_named = self.is_named || self.pattern.method(class, method);
        if self.is_named {
            return;
        }
        let full = format!("{class}.{method}");
        let short = self.pattern.as_str();
        // The class, and the classes that contain it.
        let ends = class.match_indices('$').map(|(end, _)| end).chain([class.len()]);
        let classes = ends.filter_map(|end| class.get(..end));
        let found = classes.chain([full.as_str()]).filter(|name| is_end_of(short, name));
        self.candidates.extend(found.map(str::to_owned));
    }

    /// The pattern with the full name, if there is one; `None` if it is unchanged.
    ///
    /// # Errors
    /// There are several candidates, which the error names.
    pub fn finish(self) -> Result<Option<Pattern>, BadValue> {
        if self.is_named {
            return Ok(None);
        }
        let mut candidates = self.candidates.iter();
        match (candidates.next(), candidates.next()) {
            (None, _) => Ok(None),
            (Some(name), None) => Pattern::parse(name).map(Some),
            (Some(_), Some(_)) => {
                let shown: Vec<&str> =
                    self.candidates.iter().map(String::as_str).take(SHOWN).collect();
                let more = self.candidates.len().saturating_sub(SHOWN);
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                let (short, shown) = (self.pattern.as_str(), shown.join(", "));
                let reason =
                    format!("could be {shown}{more}; give one of them, or **.{short} for all");
                Err(BadValue::new(short, reason))
            }
        }
    }
}

/// Whether a name ends in `short`, on a boundary of names.
fn is_end_of(short: &str, name: &str) -> bool {
    name.strip_suffix(short).is_some_and(|before| before.ends_with(['.', '$']))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(pattern: &str) -> Result<Option<String>, BadValue> {
        let pattern = Pattern::parse(pattern).unwrap();
        let mut short = ShortName::new(&pattern);
        for (class, method) in [
            ("com.shop.web.OrderHandler", "handleOrders"),
            ("com.shop.web.OrderHandler", "close"),
            ("com.shop.web.CartHandler", "close"),
            ("com.shop.Stock$Shelf", "count"),
            ("com.shop.Stock$Shelf$Slot", "count"),
            ("Main", "main"),
        ] {
            let descriptor = "()V".to_owned();
            short.look_at(&MethodName { class: class.into(), method: method.into(), descriptor });
        }
        Ok(short.finish()?.map(|pattern| pattern.to_string()))
    }

    #[test]
    fn a_short_name_of_one_class_stands_for_it() {
        for (short, full) in [
            ("handleOrders", "com.shop.web.OrderHandler.handleOrders"),
            ("OrderHandler", "com.shop.web.OrderHandler"),
            ("OrderHandler.close", "com.shop.web.OrderHandler.close"),
            ("web.CartHandler", "com.shop.web.CartHandler"),
            // Only nested classes of this one have methods.
            ("Stock", "com.shop.Stock"),
            ("Stock$Shelf", "com.shop.Stock$Shelf"),
            ("Slot", "com.shop.Stock$Shelf$Slot"),
            ("main", "Main.main"),
        ] {
            assert_eq!(find(short), Ok(Some(full.to_owned())), "{short}");
        }
        for unchanged in
            ["com.shop", "Main", "com.shop.web.OrderHandler.close", "**.close", "nobody"]
        {
            assert_eq!(find(unchanged), Ok(None), "{unchanged}");
        }
        // Only whole words of a name match.
        assert_eq!(find("Handler"), Ok(None));
    }

    #[test]
    fn one_of_several_classes_is_not_guessed() {
        let expected = "'close' could be com.shop.web.CartHandler.close, \
                        com.shop.web.OrderHandler.close; give one of them, or **.close for all";
        assert_eq!(find("close").unwrap_err().to_string(), expected);
    }
}
