//! The text of a statement without its literals: `select * from orders where id = ? and name = ?`.
//!
//! Literals can be secrets. What could be one or not counts as one: what follows a quote behind a backslash is left
//! out, because databases disagree on whether the quote ends the literal.

/// The longest text, in characters.
const MOST: usize = 2_000;
/// Stands for what is left out.
const REST: &str = "...";
/// The longest tag of a dollar-quoted literal: the longest name of PostgreSQL.
const LONGEST_TAG: usize = 63;

/// How a database reads a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dialect {
    /// `"..."` may be a literal, and `#` may begin a comment, as in MySQL; else the first is a name.
    pub is_mysql: bool,
    /// What is in backquotes may be a literal, as in SQLite.
    pub is_sqlite: bool,
}

/// The text with `?` for literals, without comments, with single spaces, and with `(?, ...)` for lists of literals.
pub(crate) fn without_literals(text: &str, dialect: Dialect) -> String {
    let mut reader = Reader { rest: text, dialect, out: String::new() };
    let is_whole = reader.read().is_some();
    let mut out = shortened_lists(reader.out.trim_end());
    let end = out.char_indices().nth(MOST).map(|(at, _)| at);
    if let Some(at) = end {
        out.truncate(at);
    }
    if end.is_some() || !is_whole {
        out += REST;
    }
    out
}

struct Reader<'t> {
    rest: &'t str,
    dialect: Dialect,
    out: String,
}

/// `None` if it is not certain where a literal or comment ends: nothing behind it may be shown.
type Certain = Option<()>;

impl<'t> Reader<'t> {
    fn read(&mut self) -> Certain {
        while let Some(c) = self.rest.chars().next() {
            if self.out.len() > 8 * MOST {
                return None;
            }
            match c {
                '\'' if self.is_q_quoted() => self.q_quoted()?,
                '\'' => self.literal(c)?,
                '"' if self.dialect.is_mysql => self.literal(c)?,
                '`' if self.dialect.is_sqlite => self.literal(c)?,
                '"' | '`' => self.name(c),
                '$' if self.rest.starts_with("$$") && self.is_in_word() => return None,
                '$' if !self.is_in_word() => self.dollar_quoted()?,
                '-' if self.rest.starts_with("--") => self.skip_line()?,
                '#' if self.dialect.is_mysql => self.skip_line()?,
                '/' if self.rest.starts_with("//") => self.skip_line()?,
                '[' if self.has_half_literal(']') => return None,
                '{' if self.has_half_literal('}') => return None,
                '/' if self.rest.starts_with("/*") => self.skip_comment()?,
                '?' => {
                    self.push(c);
                    self.skip(|c| c.is_ascii_digit());
                }
                c if c.is_ascii_digit() && !self.is_in_word() => self.number(),
                c if c.is_whitespace() => {
                    self.skip(char::is_whitespace);
                    self.space()?;
                }
                c => self.push(c),
            }
        }
        Some(())
    }

    /// Takes so many bytes.
    fn take(&mut self, length: usize) -> &'t str {
        let (taken, rest) = self.rest.split_at_checked(length).unwrap_or((self.rest, ""));
        self.rest = rest;
        taken
    }

    fn skip(&mut self, is_one: impl Fn(char) -> bool) {
        self.rest = self.rest.trim_start_matches(is_one);
    }

    fn push(&mut self, c: char) {
        self.take(c.len_utf8());
        self.out.push(c);
    }

    /// Whether the last character belongs to a name, so that what follows does, too.
    fn is_in_word(&self) -> bool {
        self.out.ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '$'))
    }

    fn space(&mut self) -> Certain {
        if !self.out.is_empty() && !self.out.ends_with(' ') {
            self.out.push(' ');
            if self.is_before_password() {
                self.out.push('?');
                return None;
            }
        }
        Some(())
    }

    /// Whether a password follows, which may have no quotes.
    fn is_before_password(&self) -> bool {
        let ends_with = |word: &str| {
            let start = self.out.len().saturating_sub(word.len());
            self.out.get(start..).is_some_and(|end| end.eq_ignore_ascii_case(word))
        };
        let first = self.out.split(' ').next().unwrap_or_default();
        let is_of_account = ["alter", "connect", "create", "grant", "set"]
            .iter()
            .any(|of| first.eq_ignore_ascii_case(of));
        ends_with("identified by ") || is_of_account && ends_with("password ")
    }

    /// Whether a quote in brackets may not begin a literal: `[Driver's name]` of SQL Server and SQLite, `{it's a
    /// comment}` of Informix.
    fn has_half_literal(&self, end: char) -> bool {
        let inside = self.rest.get(1..).unwrap_or_default().split(end).next().unwrap_or_default();
        ['\'', '"'].iter().any(|quote| inside.matches(*quote).count() % 2 == 1)
    }

    fn literal(&mut self, quote: char) -> Certain {
        let is_tripled = self.rest.get(..3).is_some_and(|three| three.chars().all(|c| c == quote));
        self.take(1);
        self.out.push('?');
        // BigQuery's `\'\'\'it's\'\'\'`.
        if is_tripled && !self.rest.get(2..).is_some_and(|rest| rest.starts_with(quote)) {
            return None;
        }
        loop {
            let Some(at) = self.rest.find([quote, '\\']) else {
                self.rest = "";
                return Some(());
            };
            self.take(at);
            let mut two = self.rest.chars();
            match (two.next(), two.next()) {
                // Whether it escapes the next character depends on the database.
                (Some('\\'), Some(next)) if next == quote || next == '\\' => return None,
                (Some(c), Some(next)) if c == quote && next == quote => _ = self.take(2),
                (Some(c), _) => {
                    self.take(1);
                    if c == quote {
                        return Some(());
                    }
                }
                (None, _) => return Some(()),
            }
        }
    }

    /// Oracle's `q'[...]'`.
    fn is_q_quoted(&self) -> bool {
        let start =
            self.out.rfind(|c: char| !c.is_alphanumeric() && c != '_').map_or(0, |at| at + 1);
        let word = self.out.get(start..).unwrap_or_default();
        word.eq_ignore_ascii_case("q") || word.eq_ignore_ascii_case("nq")
    }

    fn q_quoted(&mut self) -> Certain {
        self.take(1);
        self.out.push('?');
        let open = self.rest.chars().next()?;
        let close = match open {
            '[' => ']',
            '(' => ')',
            '{' => '}',
            '<' => '>',
            other => other,
        };
        self.take(open.len_utf8());
        let at = self.rest.find(&format!("{close}'"))?;
        self.take(at + close.len_utf8() + 1);
        Some(())
    }

    fn name(&mut self, quote: char) {
        let inside = self.rest.get(1..).and_then(|rest| rest.find(quote));
        let name = self.take(inside.map_or(self.rest.len(), |length| length + 2));
        self.out += name;
    }

    /// `$$...$$` or `$tag$...$tag$`; else a parameter, `$1`.
    fn dollar_quoted(&mut self) -> Certain {
        let is_in_tag = |c: char| c.is_alphanumeric() || c == '_';
        let inside = self.rest.get(1..).unwrap_or_default();
        let length = inside.find(|c| !is_in_tag(c)).unwrap_or(inside.len());
        let tag = inside.get(..length).unwrap_or_default();
        let is_tag = length <= LONGEST_TAG
            && !tag.starts_with(|c: char| c.is_ascii_digit())
            && inside.get(length..).is_some_and(|rest| rest.starts_with('$'));
        if !is_tag {
            self.push('$');
            if self.dialect.is_mysql && tag.starts_with(|c: char| c.is_ascii_digit()) {
                // An amount of money.
                self.number();
            }
            return Some(());
        }
        let quote = self.take(length + 2);
        self.out.push('?');
        let at = self.rest.find(quote)?;
        self.take(at + quote.len());
        Some(())
    }

    fn number(&mut self) {
        self.out.push('?');
        while let Some(c) =
            self.rest.chars().next().filter(|c| c.is_alphanumeric() || matches!(c, '.' | '_'))
        {
            self.take(c.len_utf8());
            // An exponent has a sign.
            if matches!(c, 'e' | 'E') && self.rest.starts_with(['+', '-']) {
                self.take(1);
            }
        }
    }

    /// What begins a comment, or ends one, depends on the database: `a--1`, `#tmp`, and lines that end in `\r`. That
    /// does not matter where the line has no quotes.
    fn skip_line(&mut self) -> Certain {
        let end = self.rest.find('\n').unwrap_or(self.rest.len());
        let line = self.take(end);
        let is_comment = line.get(2..).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
        let doubtful = match line.find('\r') {
            _ if !is_comment || !line.starts_with("--") => line,
            Some(at) => line.get(at..).unwrap_or_default(),
            None => "",
        };
        if doubtful.contains(['\'', '"', '`', '$', '*']) {
            return None;
        }
        self.space()
    }

    /// Some databases have comments in comments, others do not.
    fn skip_comment(&mut self) -> Certain {
        let length = self.rest.find("*/").map_or(self.rest.len(), |at| at + 2);
        let comment = self.take(length);
        if comment.get(2..).is_some_and(|inside| inside.contains("/*")) {
            return None;
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
    fn literals_are_omitted() {
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
            ("select ?1, ? from t", "select ?, ? from t"),
            ("select Q'[it's a 'secret']', nq'!x!' from t", "select Q?, nq? from t"),
            ("select x.q, 'secret' from q", "select x.q, ? from q"),
            ("select a, :1, x[1:777] -- it's\nfrom t", "select a, :?, x[?:?] from t"),
            ("select [a b], array['x'], m['k'] from t", "select [a b], array[?], m[?] from t"),
            ("select .5, 1.e5, 1e-5x, t1.c2 from t", "select .?, ?, ?, t1.c2 from t"),
            ("select $$se'cret$$, $a$x$$y$a$ from t", "select ?, ? from t"),
            ("call f(1)", "call f(?)"),
            ("select 'open", "select ?"),
            ("", ""),
        ] {
            assert_eq!(plain(text), expected, "{text}");
        }
        let mysql = Dialect { is_mysql: true, ..Dialect::default() };
        assert_eq!(without_literals("select \"secret\" # x", mysql), "select ?");
    }

    /// Whether a backslash escapes a quote depends on the database.
    #[test]
    fn what_may_be_a_literal_is_omitted() {
        assert_eq!(plain(r"where a = 'x\' and b = 'secret'"), "where a = ?...");
        assert_eq!(plain(r"where a = 'x\\' and b = 'secret'"), "where a = ?...");
        assert_eq!(plain(r"where a = 'x\n' and b = 'y'"), "where a = ? and b = ?");
        assert_eq!(plain("select $a$ secret"), "select ?...");
        assert_eq!(plain("select q'[secret"), "select q?...");
        assert_eq!(plain("select 1 /* a /* b */ secret */"), "select ?...");
        assert_eq!(plain("create user x Password  secret"), "create user x Password ?...");
        assert_eq!(
            plain("select password from t where a = 1"),
            "select password from t where a = ?"
        );
        assert_eq!(plain("select '''it's secret'''"), "select ?...");
        assert_eq!(plain("select 1 // it's\n, 'secret'"), "select ?...");
        assert_eq!(plain("select {it's} 'secret', {ts '2020'}"), "select...");
        assert_eq!(plain("select {ts '2020'}, @12 // x\n, 2"), "select {ts ?}, @? , ?");
        assert_eq!(plain("select [Driver's name], 'secret'"), "select...");
        assert_eq!(plain("select 'a' -- x\r, 'b\nsecret'"), "select ?...");
        let other = Dialect { is_mysql: true, ..Dialect::default() };
        let of_other = |text| without_literals(text, other);
        assert_eq!(of_other("set a = a--5, n = 'x\nsecret'"), "set a = a...");
        assert_eq!(of_other("insert into #tmp values ('x\nsecret')"), "insert into...");
        assert_eq!(of_other("insert into #tmp select\n1"), "insert into ?");
        assert_eq!(of_other("where x > $500.25"), "where x > $?");
        assert_eq!(plain("alter user x\nIdentified  BY secret"), "alter user x Identified BY ?...");
    }

    /// Literals with whatever needs care, in all forms, before and behind whatever needs care.
    #[test]
    fn no_literal_is_left_in_any_text() {
        let inside = [
            "SECRET",
            "it''s SECRET",
            "--SECRET",
            "/*SECRET",
            "#SECRET",
            "$$SECRET",
            "[SECRET",
            "a\nSECRET",
            "(SECRET",
        ];
        let forms =
            ["'{}'", "E'{}'", "N'{}'", "$${}$$", "$t${}$t$", "q'[{}]'", "Q'!{}!'", "('{}', 1)"];
        let around = [
            "", "a", " -- x\n", "/* x */", " 'y' ", "\"n\"", "`n`", "[n]", " #x\n", " a--1 ", "$1",
            ":1", "x'5'", "\r\n", "1e5", "q",
        ];
        for dialect in [false, true].map(|is_mysql| Dialect { is_mysql, is_sqlite: is_mysql }) {
            for (form, secret) in forms.iter().flat_map(|form| inside.map(|secret| (*form, secret)))
            {
                for (before, behind) in around.iter().flat_map(|a| around.map(|b| (*a, b))) {
                    // Such a literal has ended before the secret.
                    if form.contains('$') && secret.contains('$') {
                        continue;
                    }
                    let literal = form.replace("{}", secret);
                    let text = format!("select {before} {literal} {behind} from t");
                    let found = without_literals(&text, dialect);
                    assert!(!found.contains("SECRET"), "{text}: {found}");
                }
            }
        }
    }

    #[test]
    fn long_texts_are_cut() {
        let long = format!("select {} from t", "column, ".repeat(10_000));
        let text = plain(&long);
        assert_eq!(text.chars().count(), MOST + REST.len());
        assert!(text.ends_with(REST));
        let many = format!("values {}", "('é', 2), ".repeat(100_000));
        assert!(plain(&many).len() < 100_000);
        // Nothing takes a time that grows with the square of the length.
        for part in ["$", "$a", "(", "((?,", "'", "/*", "q'", "\"", "\\'", "1e", "--", "$a$ $b"] {
            assert!(plain(&part.repeat(50_000)).len() <= 100_000, "{part}");
        }
    }
}
