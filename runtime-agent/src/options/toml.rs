//! Options from a TOML file: the same keys as on the command line, and lists where a key may repeat.

use log_format::error::BadValue;
use toml::de::{DeTable, DeValue};

use super::setting::Setting;

/// Reads the settings of a file called `name`, in the order of its lines.
///
/// # Errors
/// What is wrong, with the file's name and the line's number.
pub(super) fn read(name: &str, text: &str) -> Result<Vec<Setting>, BadValue> {
    let line = |at: usize| {
        let before = text.as_bytes().get(..at).unwrap_or_default();
        1 + before.iter().filter(|b| **b == b'\n').count()
    };
    let table = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let reason = error.message().replace('\n', "; ");
        BadValue::because(reason).of(format_args!("{name}:{}", line(at)))
    })?;
    let mut settings = Vec::new();
    for (key, value) in table.get_ref() {
        let place = |at: usize| format!("{name}:{}", line(at));
        let mut add = |value: &DeValue<'_>, at: usize| {
            let value = text_of(value).ok_or_else(|| {
                let reason = format!("unexpected {} value", value.type_str());
                BadValue::because(reason).of(key.get_ref()).of(place(at))
            })?;
            let (key, place) = (key.get_ref().to_string(), Some(place(at)));
            settings.push((at, Setting { key, value, place }));
            Ok::<(), BadValue>(())
        };
        match value.get_ref() {
            DeValue::Array(list) => {
                for value in list.iter() {
                    add(value.get_ref(), value.span().start)?;
                }
            }
            single => add(single, value.span().start)?,
        }
    }
    settings.sort_by_key(|(at, _)| *at);
    Ok(settings.into_iter().map(|(_, setting)| setting).collect())
}

/// A value in its command-line form.
fn text_of(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => Some(number.as_str().to_owned()),
        DeValue::Float(number) => Some(number.as_str().to_owned()),
        DeValue::Boolean(on) => Some(if *on { "on" } else { "off" }.to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> Vec<(String, String, String)> {
        let settings = read("t.toml", text).unwrap();
        settings.into_iter().map(|s| (s.place.unwrap(), s.key, s.value)).collect()
    }

    #[test]
    fn keys_with_values_and_lists() {
        let text = "# what to measure\ninclude = [\n  \"com.shop\",\n  'com.pay.*Dao', # theirs\n]\n\
                    port = 50_010\nstart = false\nmin_code = 20\nmax_mb = 0.5\n";
        let expected = [
            ("t.toml:3", "include", "com.shop"),
            ("t.toml:4", "include", "com.pay.*Dao"),
            ("t.toml:6", "port", "50010"),
            ("t.toml:7", "start", "off"),
            ("t.toml:8", "min_code", "20"),
            ("t.toml:9", "max_mb", "0.5"),
        ];
        let found = settings(text);
        let found: Vec<_> = found.iter().map(|(a, b, c)| (&**a, &**b, &**c)).collect();
        assert_eq!(found, expected);
        assert_eq!(settings(""), []);
    }

    #[test]
    fn what_is_wrong_is_reported_with_its_line() {
        for (text, message) in [
            ("port = \n", "t.toml:1: "),
            ("\n\nport 5", "t.toml:3: "),
            ("port = 1\nport = 2\n", "t.toml:2: "),
            ("\nthreshold = 12:00:00\n", "t.toml:2: threshold: unexpected datetime value"),
            ("[agent]\nport = 1\n", "t.toml:1: agent: unexpected table value"),
            ("include = [['a']]", "t.toml:1: include: unexpected array value"),
            ("day = 2026-01-01", "t.toml:1: day: unexpected datetime value"),
        ] {
            let error = read("t.toml", text).unwrap_err().to_string();
            assert!(error.starts_with(message) && !error.contains('\n'), "{text}: {error}");
        }
    }
}
