//! Types as class files write them (JVM specification 4.3), in Java notation.

/// The first type of a descriptor, `int` of `ILjava/lang/String;`, and the text after it; `None` if it is none.
#[must_use]
pub fn first_type(text: &str) -> Option<(String, &str)> {
    let element = text.trim_start_matches('[');
    let dimensions = text.len() - element.len();
    let (name, after) = match element.strip_prefix('L') {
        Some(class) => {
            let (name, after) = class.split_once(';')?;
            (name.replace('/', "."), after)
        }
        None => {
            let (letter, after) = element.split_at_checked(1)?;
            let name = match letter {
                "B" => "byte",
                "C" => "char",
                "D" => "double",
                "F" => "float",
                "I" => "int",
                "J" => "long",
                "S" => "short",
                "Z" => "boolean",
                _ => return None,
            };
            (name.to_owned(), after)
        }
    };
    Some((format!("{name}{}", "[]".repeat(dimensions)), after))
}

/// The name of a class by its JVMTI signature: `com.shop.Order` for `Lcom/shop/Order;`, `long[]` for `[J`. What is no
/// signature stays as it is.
#[must_use]
pub fn class_name(signature: &str) -> String {
    match first_type(signature) {
        Some((name, "")) => name,
        _ if signature == "V" => "void".to_owned(),
        _ => signature.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_have_their_names_in_java() {
        for (signature, name) in [
            ("Lcom/shop/Stock$Shelf;", "com.shop.Stock$Shelf"),
            (
                "Lcom/shop/Stock$$Lambda.0x0000000800001800;",
                "com.shop.Stock$$Lambda.0x0000000800001800",
            ),
            ("[Lcom/shop/Stock;", "com.shop.Stock[]"),
            ("[[J", "long[][]"),
            ("V", "void"),
            ("II", "II"),
            ("", ""),
        ] {
            assert_eq!(class_name(signature), name);
        }
    }

    #[test]
    fn types_are_read_one_by_one() {
        assert_eq!(first_type("ILjava/lang/String;"), Some(("int".into(), "Ljava/lang/String;")));
        assert_eq!(first_type("[La/B;Z"), Some(("a.B[]".into(), "Z")));
        for none in ["", "[", "La/B", "Q"] {
            assert_eq!(first_type(none), None);
        }
    }
}
