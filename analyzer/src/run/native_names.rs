//! Names of native functions as programmers write them.

use cpp_demangle::{DemangleOptions, Symbol};

/// A function's name without its parameters: `G1CollectedHeap::do_collection` for
/// `_ZN15G1CollectedHeap13do_collectionEbbm`. What is no such name stays as it is.
pub fn readable(symbol: &str) -> String {
    if let Ok(name) = rustc_demangle::try_demangle(symbol) {
        return format!("{name:#}");
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
    Symbol::new(symbol).ok()?.demangle_with_options(&options).ok()
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
}
