//! Names of native functions as programmers write them.

use std::fmt::{self, Write};

use cpp_demangle::{DemangleOptions, Symbol};

/// Longest name: a short symbol may stand for gigabytes.
const LONGEST: usize = 2_000;

/// A function's name without its parameters: `G1CollectedHeap::do_collection` for
/// `_ZN15G1CollectedHeap13do_collectionEbbm`. What is no such name stays as it is.
pub fn readable(symbol: &str) -> String {
    if let Ok(name) = rustc_demangle::try_demangle(symbol) {
        let mut short = Short::default();
        return match write!(short, "{name:#}") {
            Ok(()) => short.0,
            Err(fmt::Error) => symbol.to_owned(),
        };
    }
    // Compilers add what they made of a function: `.part.0`, `.constprop.1`.
    let whole = symbol.split_once('.').map_or(symbol, |(whole, _)| whole);
    cpp(whole).unwrap_or_else(|| symbol.to_owned())
}

fn cpp(symbol: &str) -> Option<String> {
    if !symbol.starts_with("_Z") {
        return None;
    }
    let options = DemangleOptions::new().no_params().no_return_type();
    let mut short = Short::default();
    Symbol::new(symbol).ok()?.structured_demangle(&mut short, &options).ok()?;
    Some(short.0)
}

/// A text that refuses to get longer than [`LONGEST`].
#[derive(Default)]
struct Short(String);

impl Write for Short {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        if self.0.len() + part.len() > LONGEST {
            return Err(fmt::Error);
        }
        self.0.push_str(part);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_have_the_names_of_their_language() {
        for (symbol, name) in [
            ("_ZN15G1CollectedHeap13do_collectionEbbm", "G1CollectedHeap::do_collection"),
            ("_ZN7Compile8OptimizeEv.part.0", "Compile::Optimize"),
            ("_ZN3std2io5stdio6_print17h1234567890abcdefE", "std::io::stdio::_print"),
            ("_RNvCs1234_7mycrate3foo", "mycrate::foo"),
            ("memcpy", "memcpy"),
            ("_ZN9nonsense", "_ZN9nonsense"),
            ("__memset_avx2_unaligned_erms", "__memset_avx2_unaligned_erms"),
        ] {
            assert_eq!(readable(symbol), name);
        }
    }

    /// Each level names the one before eight times.
    #[test]
    fn a_symbol_that_stands_for_gigabytes_stays_as_it_is() {
        let mut symbol = "_Z1fI1aIiiE".to_owned();
        for level in 1..13 {
            let before = char::from_digit(level, 36).unwrap().to_ascii_uppercase();
            symbol += &format!("S0_I{}E", format!("S{before}_").repeat(8));
        }
        symbol += "Evv";
        assert!(Symbol::new(&symbol).is_ok());
        assert_eq!(readable(&symbol), symbol);
    }
}
