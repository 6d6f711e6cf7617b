//! How values are spelled, what is refused, and what is told when one does not decode.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;

use passbook::{MAX_DEPTH, MAX_VALUE_BYTES, Refused, Value};
use serde::ser::{Error as _, SerializeMap as _, SerializeSeq as _, SerializeStruct as _};
use serde::{Deserialize, Serialize, Serializer};

use crate::kinds::*;

#[test]
fn numbers_are_spelled_as_numeric_spells_them() {
    assert_eq!(text(&1e300), format!("1{}", "0".repeat(300)));
    assert_eq!(text(&-1.5e-7), "-0.00000015");
    assert_eq!(text(&[1.0, 1e16, -0.0]), "[1.0, 10000000000000000.0, 0.0]");
    assert_eq!(text(&0.1_f32), "0.1");
    for (typed, canonical) in [
        ("-0.0", "0.0"),
        ("-0", "0"),
        ("0.00e-3", "0.00000"),
        ("0e5", "0"),
        ("0.000e2", "0.0"),
        ("1.50e1", "15.0"),
        ("-12e-1", "-1.2"),
        ("1E+2", "100"),
        ("100e-2", "1.00"),
        ("0.0012e2", "0.12"),
        ("0.0012e3", "1.2"),
        ("0.0012e5", "120"),
        ("0e1073741822", "0"),
        ("123456789012345678901234567890.10", "123456789012345678901234567890.10"),
    ] {
        assert_eq!(Value::parse(typed).unwrap().as_str(), canonical, "{typed}");
    }
}

#[test]
fn a_negative_zero_comes_back_without_its_sign() {
    assert!(through(&-0.0_f64).is_sign_positive());
    assert!(through(&-0.0_f32).is_sign_positive());
    assert!(
        Value::parse("-0e-3")
            .unwrap()
            .decode::<f64>()
            .unwrap()
            .is_sign_positive()
    );
}

#[test]
fn the_last_of_equal_keys_wins() {
    let value = Value::parse(r#"{"b":1,"a":{"x":1},"aa":3,"b":4,"\u0061":[2],"a":5}"#).unwrap();
    assert_eq!(value.as_str(), r#"{"a": 5, "b": 4, "aa": 3}"#);
}

#[test]
fn a_wide_integer_comes_back_from_beside_a_tag_that_sorts_behind_it() {
    let variant = Adjacent::Struct {
        price: 1.0,
        id: u128::MAX,
    };
    assert!(text(&variant).ends_with(r#", "type": "Struct"}"#));
    let escaped = (", \"]}".to_owned(), Newtype(0.5));
    comes_back(&BTreeMap::from([("{\"".to_owned(), vec![(escaped, Some(variant))])]));
}

#[test]
fn keys_are_ordered_by_what_they_mean_and_not_by_how_they_are_escaped() {
    let keys = ["\n\n", "é", "ab", "\"", "\u{1}", "~", "\\", "abc", ""];
    let map: HashMap<&str, u8> = keys.into_iter().map(|key| (key, 0)).collect();
    assert_eq!(
        text(&map),
        r#"{"": 0, "\u0001": 0, "\"": 0, "\\": 0, "~": 0, "\n\n": 0, "ab": 0, "é": 0, "abc": 0}"#
    );
}

#[test]
fn strings_are_escaped_as_postgres_escapes_them() {
    let controls: String = ('\u{1}'..='\u{1f}').collect();
    assert_eq!(
        text(&controls),
        r#""\u0001\u0002\u0003\u0004\u0005\u0006\u0007\b\t\n\u000b\f\r\u000e\u000f\u0010\u0011\u0012\u0013\u0014\u0015\u0016\u0017\u0018\u0019\u001a\u001b\u001c\u001d\u001e\u001f""#
    );
    assert_eq!(text("\"\\/\u{7f}é\u{2028}😀"), "\"\\\"\\\\/\u{7f}é\u{2028}😀\"");
}

#[test]
fn what_displays_as_a_string_is_a_string() {
    struct Shown;
    impl Serialize for Shown {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_str(&format_args!("a{}c", "\"b\n"))
        }
    }
    assert_eq!(text(&[Shown]), r#"["a\"b\nc"]"#);
}

#[test]
fn numbers_and_raw_json_of_serde_json_are_taken_digit_by_digit() {
    assert_eq!(text(&Verbatim(NUMBER, "1.50e1")), "15.0");
    assert_eq!(
        text(&[Verbatim(RAW_VALUE, r#"{"bb":1,"a":[12345678901234567890123, 1e2]}"#)]),
        r#"[{"a": [12345678901234567890123, 100], "bb": 1}]"#
    );
    let refusal = refused(&[Verbatim(RAW_VALUE, r#"{"a":[1,"\u0000"]}"#)]);
    assert_eq!(refusal.place(), "$[0].a[1]");
    let refusal = refused(&BTreeMap::from([("n", Verbatim(NUMBER, "0x1"))]));
    assert_eq!(refusal.place(), "$.n");
}

#[test]
fn a_float_that_is_not_finite_is_refused() {
    let refusal = refused(&BTreeMap::from([(
        "items",
        vec![(1, None), (2, Some(Newtype(f64::NAN)))],
    )]));
    assert_eq!(refusal.place(), "$.items[1][1]");
    assert_eq!(
        refusal.to_string(),
        "value refused at `$.items[1][1]`: NaN is not a JSON number; store `None` or a string instead"
    );
    assert_eq!(refused(&f32::INFINITY).place(), "$");
    assert_eq!(refused(&External::Newtype(f32::NAN)).place(), "$.Newtype");
    let variant = External::Struct {
        price: f64::NEG_INFINITY,
        id: 1,
    };
    assert_eq!(refused(&variant).place(), "$.Struct.price");
}

#[test]
fn a_nul_in_a_string_or_a_key_is_refused() {
    assert_eq!(refused("a\0").place(), "$");
    assert_eq!(refused(&('a', '\0')).place(), "$[1]");
    let variant = External::Tuple(1, "\0".into());
    assert_eq!(refused(&vec![External::Unit, variant]).place(), "$[1].Tuple[1]");
    let inner = BTreeMap::from([("a", 1), ("b\0", 2)]);
    let refusal = refused(&BTreeMap::from([("odd key", inner)]));
    assert_eq!(refusal.place(), "$[\"odd key\"]");
    assert!(refusal.reason().contains("NUL"), "{refusal}");
    assert_eq!(Value::parse(r#"[0, "\u0000"]"#).unwrap_err().place(), "$[1]");
    assert_eq!(Value::parse(r#"{"a": {"\u0000": 1}}"#).unwrap_err().place(), "$.a");
}

#[test]
fn a_map_by_what_is_not_a_string_is_refused() {
    fn by<K: Serialize>(key: K) -> Refused {
        struct Map<K>(K);
        impl<K: Serialize> Serialize for Map<K> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut map = serializer.serialize_map(None)?;
                map.serialize_entry("a", &1)?;
                map.serialize_entry(&self.0, &2)?;
                map.end()
            }
        }
        let reference = serde_json::to_string(&Map(&key));
        assert!(reference.is_err(), "serde_json refuses it as well");
        let refusal = refused(&[Map(&key)]);
        assert_eq!(refusal.place(), "$[0]");
        refusal
    }
    assert_eq!(
        by((1, 2)).reason(),
        "a map has a tuple as its key, which JSON cannot write as a string; store the map as a list of pairs"
    );
    by(None::<String>);
    by(());
    by(Unit);
    by(vec![1]);
    by(Bytes(b"a"));
    by(f64::NAN);
    by(BTreeMap::from([(1, 1)]));
    by(Pair(1, String::new()));
    by(External::Newtype(1.0));
    by(External::Tuple(1, String::new()));
    by(External::Struct { price: 1.0, id: 1 });
    by(Verbatim("a", "b"));
}

#[test]
fn a_map_by_float_comes_back() {
    #[derive(Serialize, Deserialize, Debug, PartialEq, Clone, Copy)]
    struct Bits(f64);
    impl Eq for Bits {}
    impl std::hash::Hash for Bits {
        fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
            self.0.to_bits().hash(state);
        }
    }
    let map: HashMap<Bits, u8> = [0.1, -1e300, 5e-324, 1e16, 3.0]
        .into_iter()
        .map(|float| (Bits(float), 1))
        .collect();
    assert_eq!(Value::encode(&map).unwrap().decode::<HashMap<Bits, u8>>().unwrap(), map);
    assert_eq!(text(&HashMap::from([(Bits(-0.0), 1)])), r#"{"0.0": 1}"#);
}

#[test]
fn nesting_is_written_exactly_as_deep_as_it_can_be_read() {
    #[derive(Serialize, Deserialize, Debug, PartialEq)]
    enum Nest {
        Leaf,
        In(Box<Nest>),
        List(Vec<Nest>),
    }
    let deep = |levels| {
        (0..levels).fold(Nest::Leaf, |inner, level| {
            if level % 2 == 0 {
                Nest::In(Box::new(inner))
            } else {
                // An object and an array.
                Nest::List(vec![inner])
            }
        })
    };
    // Every second one has two levels.
    comes_back(&deep(MAX_DEPTH / 3 * 2));
    let refusal = refused(&deep(MAX_DEPTH));
    assert!(refusal.reason().contains("127 levels"), "{refusal}");

    let brackets = |levels| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let deepest = Value::parse(&brackets(MAX_DEPTH)).unwrap();
    deepest.decode::<serde_json::Value>().unwrap();
    assert!(serde_json::from_str::<serde_json::Value>(&brackets(MAX_DEPTH + 1)).is_err());
    let refusal = Value::parse(&brackets(MAX_DEPTH + 1)).unwrap_err();
    assert_eq!(refusal.place(), format!("${}", "[0]".repeat(MAX_DEPTH)));
}

#[test]
fn a_value_over_the_limit_is_refused_before_it_is_built() {
    struct Endless;
    impl Serialize for Endless {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let mut items = serializer.serialize_seq(None)?;
            loop {
                items.serialize_element("again and again and again and again and again")?;
            }
        }
    }
    let refusal = refused(&BTreeMap::from([("log", Some(Endless))]));
    assert!(refusal.place().starts_with("$.log["), "{refusal}");
    assert!(refusal.reason().contains("16777216 bytes"), "{refusal}");

    let longest = "a".repeat(MAX_VALUE_BYTES - 2);
    assert_eq!(Value::encode(&longest).unwrap().len(), MAX_VALUE_BYTES);
    refused(&format!("{longest}a"));
    refused(&[&longest]);
    refused(&"\n".repeat(MAX_VALUE_BYTES / 2));
    let digits = "1".repeat(100_000);
    refused(&vec![Verbatim(NUMBER, digits.leak()); MAX_VALUE_BYTES / 100_000 + 1]);
    Value::parse(&format!("\"{longest}a\"")).unwrap_err();
}

#[test]
fn a_number_that_numeric_cannot_hold_is_refused() {
    for held in ["1e131071", "10e131070", "1.00e131071", "1e-16383", "0.0e-16382"] {
        let value = Value::parse(held).unwrap();
        assert_eq!(Value::parse(value.as_str()).unwrap(), value, "{held}");
    }
    for not in [
        "1e131072",
        "10e131071",
        "1e-16384",
        "0e-16384",
        "0e1073741823",
        "0e99999999999999999999",
        "-1e-99999999999999999999",
    ] {
        let refusal = Value::parse(&format!("[{not}]")).unwrap_err();
        assert_eq!(refusal.place(), "$[0]", "{not}");
        assert!(refusal.reason().contains("numeric"), "{refusal}");
    }
    Value::parse(&"1".repeat(131_073)).unwrap_err();
    Value::parse(&format!("0.{}", "0".repeat(16_384))).unwrap_err();
}

#[test]
fn what_a_type_refuses_itself_is_told_with_its_place() {
    struct Stubborn;
    impl Serialize for Stubborn {
        fn serialize<S: Serializer>(&self, _serializer: S) -> Result<S::Ok, S::Error> {
            Err(S::Error::custom("never mind"))
        }
    }
    let refusal = refused(&BTreeMap::from([("a", (1, Stubborn))]));
    assert_eq!(refusal.to_string(), "value refused at `$.a[1]`: never mind");
}

#[test]
fn a_type_that_ignores_the_error_of_its_part_is_refused_all_the_same() {
    struct Careless;
    impl Serialize for Careless {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let mut items = serializer.serialize_seq(None)?;
            let _ = items.serialize_element(&[[f64::NAN]]);
            let _ = items.serialize_element(&1);
            items.end()
        }
    }
    struct CarelessNumber;
    impl Serialize for CarelessNumber {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let mut number = serializer.serialize_struct(NUMBER, 1)?;
            let _ = number.serialize_field(NUMBER, "seven");
            number.end()
        }
    }
    assert_eq!(refused(&[CarelessNumber]).place(), "$[0]");
    assert_eq!(refused(&Careless).place(), "$[0][0][0]");
    assert_eq!(refused(&[Careless]).place(), "$[0][0][0][0]");
}

#[test]
fn a_map_whose_keys_and_values_do_not_alternate_is_refused() {
    struct Keys(&'static str);
    impl Serialize for Keys {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let mut map = serializer.serialize_map(None)?;
            for call in self.0.chars() {
                match call {
                    'k' => map.serialize_key("key")?,
                    _ => map.serialize_value(&1)?,
                }
            }
            map.end()
        }
    }
    assert_eq!(text(&Keys("kv")), r#"{"key": 1}"#);
    refused(&Keys("k"));
    refused(&Keys("v"));
    refused(&Keys("kk"));
    refused(&Keys("kvv"));
}

#[test]
fn text_that_is_not_json_is_refused_with_what_was_expected() {
    for (typed, place, reason) in [
        ("", "$", "a value at byte 0, found the end"),
        ("{'a': 1}", "$", "a key in double quotes at byte 1, found `'`"),
        ("[1, ]", "$[1]", "a value at byte 4, found `]`"),
        ("[1 2]", "$", "`,` or `]` at byte 3, found `2`"),
        (r#"{"a" 1}"#, "$.a", "`:` at byte 5, found `1`"),
        (r#"{"a": 1, }"#, "$", "a key in double quotes at byte 9"),
        (r#"{"a": nul}"#, "$.a", "a value at byte 6, found `n`"),
        ("[01]", "$", "`,` or `]` at byte 2, found `1`"),
        ("[1.]", "$[0]", "a digit at byte 3, found `]`"),
        ("-", "$", "a digit at byte 1, found the end"),
        ("1e+", "$", "a digit at byte 3, found the end"),
        ("NaN", "$", "a value at byte 0, found `N`"),
        ("1 1", "$", "the end at byte 2, found `1`"),
        (r#"["a"#, "$[0]", "a closing quote at byte 3, found the end"),
        (r#"["\x"]"#, "$[0]", "faulty escape"),
        (r#"["\ud800"]"#, "$[0]", "faulty escape"),
        ("[\"\n\"]", "$[0]", "raw control character"),
    ] {
        let refusal = Value::parse(typed).unwrap_err();
        assert_eq!(refusal.place(), place, "{typed}: {refusal}");
        assert!(refusal.reason().contains(reason), "{typed}: {refusal}");
    }
}

#[test]
fn a_value_that_does_not_fit_its_type_says_where_and_what_is_there() {
    #[derive(Deserialize, Debug)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only decoded")]
    struct Item {
        price: u32,
    }
    #[derive(Deserialize, Debug)]
    #[expect(dead_code, reason = "only decoded")]
    struct Order {
        items: Vec<Item>,
        #[serde(default)]
        sent: Option<External>,
        #[serde(default)]
        counts: BTreeMap<u8, bool>,
    }
    for (stored, place, found) in [
        (r#""x""#, "$", "a string"),
        ("null", "$", "null"),
        (r#"{"items": {}}"#, "$.items", "an object"),
        (
            r#"{"items": [{"price": 1}, {"price": "free"}]}"#,
            "$.items[1].price",
            "a string",
        ),
        (r#"{"items": [{"price": 1.5}]}"#, "$.items[0].price", "a number"),
        (r#"{"items": [{}]}"#, "$.items[0]", "an object"),
        (
            r#"{"items": [{"odd one": [[], "]"]}]}"#,
            "$.items[0][\"odd one\"]",
            "an array",
        ),
        (
            r#"{"sent": {"Newtype": true}, "items": []}"#,
            "$.sent.Newtype",
            "a boolean",
        ),
        (r#"{"sent": "Lost", "items": []}"#, "$.sent", "a string"),
        (
            r#"{"items": [], "counts": {"1": true, "2": 3}}"#,
            "$.counts[\"2\"]",
            "a number",
        ),
    ] {
        let error = Value::stored(stored).decode::<Order>().unwrap_err();
        assert_eq!((error.place(), error.found()), (place, found), "{stored}: {error}");
        assert!(error.expected().ends_with("Order"), "{error}");
    }
    let error = Value::stored(r#"[1, "free"]"#).decode::<Vec<u32>>().unwrap_err();
    assert_eq!(
        error.to_string(),
        "`$[1]` is a string that does not fit into a `alloc::vec::Vec<u32>` (invalid type: string \"free\", expected u32); was the type changed?"
    );
    let long = Value::encode(&"x".repeat(1_000_000)).unwrap();
    assert!(long.decode::<u32>().unwrap_err().to_string().len() < 400);
}

#[test]
fn numbers_that_others_stored_decode_exactly() {
    let huge = format!("{}.{}", "123456789".repeat(30), "987654321".repeat(30));
    assert_eq!(
        Value::stored(huge.as_str()).decode::<f64>().unwrap(),
        huge.parse::<f64>().unwrap()
    );
    // Halfway between two floats, and just above.
    for text in [
        "9007199254740993",
        "9007199254740993.0000000000000000000000001",
        "36893488147419107329",
    ] {
        assert_eq!(
            Value::stored(text).decode::<f64>().unwrap(),
            text.parse::<f64>().unwrap()
        );
    }
    assert!(Value::parse("1e400").unwrap().decode::<f64>().is_err());
}
