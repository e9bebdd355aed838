//! Names to suggest when a pattern matches no method: those that share its last word.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use strsim::damerau_levenshtein;

use crate::stats::method::MethodName;

/// Names suggested.
const SHOWN: usize = 3;

/// Typos allowed: letters that are wrong, missing, superfluous or swapped.
const SLIPS: usize = 2;

/// A shorter word is part of too many names to be useful.
const LEAST_WORD: usize = 3;

/// Names near a pattern, the nearest first; only as many as are suggested.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nearest(BTreeSet<(Reverse<u32>, String)>);

impl Nearest {
    /// Compares names with a pattern.
    #[must_use]
    pub fn to<'n>(pattern: &str, names: impl Iterator<Item = &'n MethodName>) -> Self {
        let text = pattern.split('(').next().unwrap_or_default().to_lowercase();
        let mut words = text.rsplit('.').map(|word| word.trim_matches(['*', '~', ' ']));
        let (last, before) = (words.next().unwrap_or_default(), words.next());
        let depth = text.split('.').count();
        let slips = slips_in(&text);
        let mut nearest = Self::default();
        let mut known = BTreeSet::new();
        for name in names {
            nearest.add(near(last, before, name));
            // A typo in a package or class.
            let begin = beginning(&name.class, depth);
            if known.insert(begin) && damerau_levenshtein(&begin.to_lowercase(), &text) <= slips {
                nearest.add(Some((Reverse(2), begin.to_owned())));
            }
        }
        nearest
    }

    /// Adds the names near a pattern in other logs.
    pub fn merge(&mut self, other: Self) {
        for near in other.0 {
            self.add(Some(near));
        }
    }

    fn add(&mut self, near: Option<(Reverse<u32>, String)>) {
        self.0.extend(near);
        while self.0.len() > SHOWN {
            self.0.pop_last();
        }
    }

    /// The hint to print if a pattern matched nothing.
    #[must_use]
    pub fn hint(&self) -> String {
        let names: Vec<&str> = self.0.iter().map(|(_, name)| name.as_str()).collect();
        let near = match names.as_slice() {
            [] => String::new(),
            names => format!("; near it: {}", names.join(", ")),
        };
        format!(
            "no method has such a name{near}. A pattern is like com.shop, com.shop.Order.pay, \
             com.shop.*Dao or **.pay, without parameters"
        )
    }
}

/// The first `depth` words of a name.
fn beginning(class: &str, depth: usize) -> &str {
    let end = class.match_indices('.').nth(depth.saturating_sub(1));
    end.map_or(class, |(end, _)| class.get(..end).unwrap_or(class))
}

/// How near a name is, and the part of it to suggest: the class, or the method too.
fn near(last: &str, before: Option<&str>, name: &MethodName) -> Option<(Reverse<u32>, String)> {
    let class = name.class.to_lowercase();
    let simple = class.rsplit(['.', '$']).next().unwrap_or_default();
    let method = name.method.to_lowercase();
    let has_part = |of: &str| last.len() >= LEAST_WORD && of.contains(last);
    let rank = if method == last && before == Some(simple) {
        4
    } else if method == last {
        3
    } else if simple == last {
        return Some((Reverse(3), name.class.clone()));
    } else if has_part(&method) {
        2
    } else if has_part(&class) {
        return Some((Reverse(1), name.class.clone()));
    } else if is_typo_of(last, simple) || before.is_some_and(|word| is_typo_of(word, simple)) {
        return Some((Reverse(2), name.class.clone()));
    } else if is_typo_of(last, &method) {
        1
    } else {
        return None;
    };
    Some((Reverse(rank), format!("{}.{}", name.class, name.method)))
}

/// The typos that a text may have: almost every name is near a short one.
fn slips_in(text: &str) -> usize {
    SLIPS.min(text.len() / 4)
}

fn is_typo_of(word: &str, name: &str) -> bool {
    let slips = slips_in(word);
    word.len().abs_diff(name.len()) <= slips && damerau_levenshtein(word, name) <= slips
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_share_the_last_word_are_near() {
        let names =
            ["com.shop.Order.pay", "com.shop.Order.repay", "com.shop.Cart.pay", "x.Pay.run"];
        let names: Vec<MethodName> = names
            .iter()
            .map(|name| {
                let (class, method) = name.rsplit_once('.').unwrap();
                let descriptor = "()V".to_owned();
                MethodName { class: class.to_owned(), method: method.to_owned(), descriptor }
            })
            .collect();
        let near = |pattern: &str| {
            let nearest = Nearest::to(pattern, names.iter());
            nearest.0.into_iter().map(|(_, name)| name).collect::<Vec<_>>()
        };
        assert_eq!(near("Order.pay(int)")[0], "com.shop.Order.pay");
        assert_eq!(near("pay"), ["com.shop.Cart.pay", "com.shop.Order.pay", "x.Pay"]);
        assert_eq!(near("REPAY"), ["com.shop.Order.repay"]);
        assert_eq!(near("org.Cart"), ["com.shop.Cart"]);
        assert_eq!(near("com.shpo"), ["com.shop"]);
        assert_eq!(near("com.shop.Oder"), ["com.shop.Order"]);
        assert_eq!(near("Oder"), ["com.shop.Order"]);
        assert_eq!(near("Oder.pax"), ["com.shop.Order"]);
        assert_eq!(near("repya"), ["com.shop.Order.repay"]);
        assert_eq!(near("com.others"), Vec::<String>::new());
        assert!(Nearest::default().hint().starts_with("no method has such a name. A pattern"));
    }
}
