//! The text of a statement without its literals: `select * from orders where id = ? and name = ?`.
//!
//! Literals can be secrets. What could be one or not counts as one: what follows a quote behind a backslash is left out,
//! because databases disagree on whether the quote ends the literal.

use std::iter::Peekable;
use std::str::Chars;

/// The longest text, in characters.
const MOST: usize = 2_000;
/// Stands for what is left out.
const REST: &str = "...";

/// How a database reads a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dialect {
    /// `"..."` is a literal, and `#` begins a comment, as in MySQL; else it is a name.
    pub is_mysql: bool,
}

/// The text with `?` for literals, without comments, with single spaces, and with `(?, ...)` for lists of literals.
pub(crate) fn without_literals(text: &str, dialect: Dialect) -> String {
    let mut reader = Reader { rest: text.chars().peekable(), dialect, out: String::new() };
    reader.read();
    let mut out = shortened_lists(reader.out.trim_end());
    if let Some((at, _)) = out.char_indices().nth(MOST) {
        out.truncate(at);
        out += REST;
    }
    out
}

struct Reader<'t> {
    rest: Peekable<Chars<'t>>,
    dialect: Dialect,
    out: String,
}

impl Reader<'_> {
    fn read(&mut self) {
        while let Some(c) = self.rest.next() {
            let is_over = match c {
                '\'' => self.literal(c),
                '"' if self.dialect.is_mysql => self.literal(c),
                '"' | '`' => self.name(c),
                '$' if !self.is_in_word() => self.dollar_quoted(),
                '-' if self.rest.peek() == Some(&'-') => self.skip_line(),
                '#' if self.dialect.is_mysql => self.skip_line(),
                '/' if self.rest.peek() == Some(&'*') => self.skip_comment(),
                c if c.is_ascii_digit() && !self.is_in_word() => self.number(),
                c if c.is_whitespace() => self.space(),
                c => {
                    self.out.push(c);
                    false
                }
            };
            if is_over || self.out.len() > 8 * MOST {
                self.out += REST;
                return;
            }
        }
    }

    /// Whether the last character belongs to a name, so that what follows does, too.
    fn is_in_word(&self) -> bool {
        self.out.ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '@' | ':'))
    }

    fn space(&mut self) -> bool {
        if !self.out.is_empty() && !self.out.ends_with(' ') {
            self.out.push(' ');
        }
        false
    }

    /// Reads to the end of a literal; `true` if that is not certain.
    fn literal(&mut self, quote: char) -> bool {
        self.out.push('?');
        while let Some(c) = self.rest.next() {
            match c {
                '\\' if self.rest.peek() == Some(&quote) => return true,
                // Two backslashes before a quote: one that is escaped, or one that escapes.
                '\\' if self.rest.peek() == Some(&'\\') => return true,
                c if c == quote && self.rest.next_if_eq(&quote).is_none() => return false,
                _ => {}
            }
        }
        false
    }

    fn name(&mut self, quote: char) -> bool {
        self.out.push(quote);
        for c in self.rest.by_ref() {
            self.out.push(c);
            if c == quote {
                break;
            }
        }
        false
    }

    /// `$$...$$` or `$tag$...$tag$`; else a parameter, `$1`.
    fn dollar_quoted(&mut self) -> bool {
        let mut ahead = self.rest.clone();
        let tag: String = ahead.by_ref().take_while(|c| *c != '$').collect();
        let is_tag = tag.chars().all(|c| c.is_alphanumeric() || c == '_')
            && !tag.starts_with(|c: char| c.is_ascii_digit());
        let text: String = self.rest.clone().collect();
        let has_end = text.get(tag.len()..).is_some_and(|rest| rest.starts_with('$'));
        if !is_tag || !has_end {
            self.out.push('$');
            return false;
        }
        self.out.push('?');
        let end = format!("${tag}$");
        let body = ahead.collect::<String>();
        match body.find(&end) {
            Some(at) => {
                let skipped = tag.chars().count() + 1;
                let length = body.get(..at).map_or(0, |body| body.chars().count());
                let all = skipped + length + end.chars().count();
                self.rest.by_ref().take(all).for_each(drop);
                false
            }
            None => true,
        }
    }

    fn number(&mut self) -> bool {
        self.out.push('?');
        while let Some(c) = self.rest.next_if(|c| c.is_alphanumeric() || matches!(c, '.' | '_')) {
            // An exponent has a sign.
            if matches!(c, 'e' | 'E') {
                self.rest.next_if(|c| matches!(c, '+' | '-'));
            }
        }
        false
    }

    fn skip_line(&mut self) -> bool {
        self.rest.by_ref().find(|c| *c == '\n');
        self.space()
    }

    fn skip_comment(&mut self) -> bool {
        self.rest.next();
        let mut before = ' ';
        for c in self.rest.by_ref() {
            if (before, c) == ('*', '/') {
                break;
            }
            before = c;
        }
        self.space()
    }
}

/// `(?, ?, ?)` becomes `(?, ...)`, and so do several such lists one after the other.
fn shortened_lists(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(open) = rest.find('(') {
        let (before, list) = rest.split_at(open);
        out += before;
        let inside = list.get(1..).and_then(|list| list.split_once(')'));
        let is_list =
            |inside: &str| inside.contains(',') && inside.split(',').all(|item| item.trim() == "?");
        match inside {
            Some((inside, behind)) if is_list(inside) => {
                // More rows of `values`.
                if !out.ends_with("(?, ...), ") && !out.ends_with("(?, ...),") {
                    out += "(?, ...)";
                } else {
                    out.truncate(out.trim_end().trim_end_matches(',').len());
                }
                rest = behind;
            }
            _ => {
                out.push('(');
                rest = list.get(1..).unwrap_or_default();
            }
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> String {
        without_literals(text, Dialect::default())
    }

    #[test]
    fn literals_are_left_out() {
        for (text, expected) in [
            ("select 1", "select ?"),
            ("SELECT a1, b_2 FROM t3 WHERE x = -1.5e-3", "SELECT a1, b_2 FROM t3 WHERE x = -?"),
            ("select 'it''s', N'x', x'ff' from dual", "select ?, N?, x? from dual"),
            ("select  *\n\tfrom t -- the secret 1\nwhere id=0x1f", "select * from t where id=?"),
            ("/* id=7 */ select /* 'a' */ 2", "select ?"),
            ("select \"Name\" from `t 1`", "select \"Name\" from `t 1`"),
            ("where id in (1, 2,3) and x in (?)", "where id in (?, ...) and x in (?)"),
            ("insert into t values (1, 'a'), (2, 'b'), (3, 'c')", "insert into t values (?, ...)"),
            ("select $1, $2 from t", "select $1, $2 from t"),
            ("select $$se'cret$$, $a$x$$y$a$ from t", "select ?, ? from t"),
            ("call f(1)", "call f(?)"),
            ("select 'open", "select ?"),
            ("", ""),
        ] {
            assert_eq!(plain(text), expected, "{text}");
        }
        let mysql = Dialect { is_mysql: true };
        assert_eq!(without_literals("select \"secret\" # x", mysql), "select ?");
    }

    /// Whether a backslash escapes a quote depends on the database.
    #[test]
    fn what_may_be_a_literal_is_left_out() {
        assert_eq!(plain(r"where a = 'x\' and b = 'secret'"), "where a = ?...");
        assert_eq!(plain(r"where a = 'x\\' and b = 'secret'"), "where a = ?...");
        assert_eq!(plain(r"where a = 'x\n' and b = 'y'"), "where a = ? and b = ?");
        assert_eq!(plain("select $a$ secret"), "select ?...");
    }

    #[test]
    fn long_texts_are_cut() {
        let long = format!("select {} from t", "column, ".repeat(10_000));
        let text = plain(&long);
        assert_eq!(text.chars().count(), MOST + REST.len());
        assert!(text.ends_with(REST));
        let many = format!("values {}", "('é', 2), ".repeat(100_000));
        assert!(plain(&many).len() < 100_000);
    }
}
