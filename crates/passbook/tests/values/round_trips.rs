//! What is written comes back.

use std::collections::BTreeMap;

use passbook::Value;
use proptest::collection::{btree_map, hash_map, vec};
use proptest::prelude::*;

use crate::kinds::*;

fn any_f32() -> impl Strategy<Value = f32> {
    any::<u32>()
        .prop_map(f32::from_bits)
        .prop_filter("finite", |float| float.is_finite())
}

fn any_f64() -> impl Strategy<Value = f64> {
    any::<u64>()
        .prop_map(f64::from_bits)
        .prop_filter("finite", |float| float.is_finite())
}

fn any_text() -> impl Strategy<Value = String> {
    let character = prop_oneof![
        4 => any::<char>(),
        1 => (0..0x80_u32).prop_filter_map("a character", char::from_u32),
    ];
    vec(character, 0..12).prop_map(|characters| {
        let characters = characters.into_iter();
        characters.filter(|&character| character != '\0').collect()
    })
}

fn any_external() -> impl Strategy<Value = External> {
    prop_oneof![
        Just(External::Unit),
        any_f32().prop_map(External::Newtype),
        (any::<u8>(), any_text()).prop_map(|(a, b)| External::Tuple(a, b)),
        (any_f64(), any::<u128>()).prop_map(|(price, id)| External::Struct { price, id }),
    ]
}

fn any_internal() -> impl Strategy<Value = Internal> {
    let unlike_the_tag = any_text().prop_filter("not the tag", |key| key != "type");
    prop_oneof![
        Just(Internal::Unit),
        btree_map(unlike_the_tag, any_f32(), 0..4).prop_map(Internal::Newtype),
        (any_f32(), any::<u64>()).prop_map(|(price, id)| Internal::Struct { price, id }),
    ]
}

fn any_adjacent() -> impl Strategy<Value = Adjacent> {
    prop_oneof![
        Just(Adjacent::Unit),
        any_f64().prop_map(Adjacent::Newtype),
        (any::<u8>(), any_text()).prop_map(|(a, b)| Adjacent::Tuple(a, b)),
        (any_f64(), any::<u128>()).prop_map(|(price, id)| Adjacent::Struct { price, id }),
    ]
}

fn any_untagged() -> impl Strategy<Value = Untagged> {
    prop_oneof![
        any::<u64>().prop_map(Untagged::Whole),
        (i64::MIN..0).prop_map(Untagged::Negative),
        any_f64().prop_map(Untagged::Float),
        any_text().prop_map(Untagged::Text),
        vec(any_f32(), 0..4).prop_map(Untagged::Many),
        any_f32().prop_map(|price| Untagged::Struct { price }),
    ]
}

fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<u64>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any_f64().prop_map(Into::into),
        any_text().prop_map(Into::into),
    ];
    leaf.prop_recursive(5, 64, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Into::into),
            btree_map(any_text(), inner, 0..6)
                .prop_map(|entries| serde_json::Value::Object(entries.into_iter().collect())),
        ]
    })
}

/// Any number by the grammar of JSON, far beyond what a float holds.
fn any_digits() -> impl Strategy<Value = String> {
    "-?(0|[1-9][0-9]{0,40})(\\.[0-9]{1,40})?([eE][+-]?[0-9]{1,3})?"
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn every_finite_f64_comes_back_bit_for_bit(float in any_f64()) {
        let expected = if float == 0.0 { 0.0_f64 } else { float };
        prop_assert_eq!(through(&float).to_bits(), expected.to_bits());
    }

    #[test]
    fn every_finite_f32_comes_back_bit_for_bit(float in any_f32()) {
        let expected = if float == 0.0 { 0.0_f32 } else { float };
        prop_assert_eq!(through(&float).to_bits(), expected.to_bits());
    }

    #[test]
    fn whole_floats_come_back_as_floats_to_a_reader_of_any_type(whole in any::<i64>()) {
        #[expect(clippy::cast_precision_loss, reason = "any whole float will do")]
        comes_back(&Untagged::Float(whole as f64));
    }

    #[test]
    fn every_integer_comes_back(
        narrow in any::<(u8, i8, u16, i16, u32, i32)>(),
        wide in any::<(u64, i64, u128, i128)>(),
    ) {
        comes_back(&narrow);
        comes_back(&wide);
    }

    #[test]
    fn every_string_and_character_comes_back(string in any_text(), character in any::<char>()) {
        comes_back(&string);
        if character != '\0' {
            comes_back(&character);
        }
    }

    #[test]
    fn nested_maps_options_and_tuples_come_back(
        value in btree_map(
            any_text(),
            hash_map(any::<i32>(), (any::<Option<bool>>(), vec(any_text(), 0..3)), 0..4),
            0..6,
        ),
    ) {
        comes_back(&value);
    }

    #[test]
    fn maps_by_number_boolean_and_character_come_back(
        integers in hash_map(any::<i128>(), any::<u8>(), 0..4),
        booleans in hash_map(any::<bool>(), any::<u8>(), 0..2),
        characters in hash_map(proptest::char::range('\u{1}', char::MAX), any::<u8>(), 0..4),
        options in hash_map(any::<u64>().prop_map(Some), any::<u8>(), 0..4),
    ) {
        comes_back(&integers);
        comes_back(&booleans);
        comes_back(&characters);
        comes_back(&options);
    }

    #[test]
    fn enums_of_every_representation_come_back(
        external in any_external(),
        internal in any_internal(),
        adjacent in any_adjacent(),
        untagged in any_untagged(),
    ) {
        comes_back(&external);
        comes_back(&internal);
        comes_back(&adjacent);
        comes_back(&untagged);
    }

    #[test]
    fn structs_of_every_shape_and_bytes_come_back(
        number in any_f64(),
        pair in (any::<i128>(), any_text()),
        bytes in vec(any::<u8>(), 0..20),
    ) {
        comes_back(&Unit);
        comes_back(&((), Unit, Newtype(number), Pair(pair.0, pair.1)));
        prop_assert_eq!(text(&Bytes(&bytes)), text(&bytes));
        comes_back(&bytes);
    }

    #[test]
    fn untyped_json_comes_back_with_its_keys_in_the_order_of_jsonb(value in any_json()) {
        comes_back(&value);
        assert_sorted(&value, Value::encode(&value).unwrap().as_str());
    }

    #[test]
    fn spelling_does_not_matter(value in any_json()) {
        prop_assert_eq!(Value::encode(&value).unwrap(), Value::parse(&shuffled(&value)).unwrap());
    }

    #[test]
    fn typed_digits_mean_the_same_number(digits in any_digits()) {
        let value = Value::parse(&digits).unwrap();
        prop_assert_eq!(&value, &Value::parse(value.as_str()).unwrap());
        prop_assert!(!value.as_str().contains(['e', 'E', '+']));
        let expected: f64 = digits.parse().unwrap();
        if expected.is_finite() {
            prop_assert_eq!(value.decode::<f64>().unwrap(), expected);
        }
        let expected: f32 = digits.parse().unwrap();
        if expected.is_finite() {
            prop_assert_eq!(value.decode::<f32>().unwrap(), expected);
        }
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "[\\[\\]{}:,\"\\\\eE0-9.\\-+ntrufalse \u{0}é]{0,20}") {
        let expected = serde_json::from_str::<serde::de::IgnoredAny>(&text);
        let parsed = Value::parse(&text);
        if let Ok(value) = &parsed {
            prop_assert!(expected.is_ok());
            prop_assert_eq!(value, &Value::parse(value.as_str()).unwrap());
        }
        let _ = Value::stored(text.as_str()).decode::<BTreeMap<String, Vec<(u8, External)>>>();
    }
}

/// The same JSON with other white space, entries in reverse and everything escaped that can be.
fn shuffled(value: &serde_json::Value) -> String {
    let quoted = |string: &str| {
        let units = string.encode_utf16().map(|unit| format!("\\u{unit:04X}"));
        format!("\"{}\"", units.collect::<String>())
    };
    match value {
        serde_json::Value::String(string) => quoted(string),
        serde_json::Value::Array(items) => {
            let items: Vec<_> = items.iter().map(shuffled).collect();
            format!("\t[{} ]", items.join("\n,"))
        }
        serde_json::Value::Object(entries) => {
            let entries = entries.iter().rev();
            let entries: Vec<_> = entries
                .map(|(key, value)| format!("{}:{}", quoted(key), shuffled(value)))
                .collect();
            format!("{{\r{}}}", entries.join(" , "))
        }
        leaf => text(leaf),
    }
}

/// Checks the order of keys by a second, plain telling of the rule.
fn assert_sorted(value: &serde_json::Value, text: &str) {
    fn spell(value: &serde_json::Value) -> String {
        match value {
            serde_json::Value::Array(items) => {
                let items: Vec<_> = items.iter().map(spell).collect();
                format!("[{}]", items.join(", "))
            }
            serde_json::Value::Object(entries) => {
                let mut entries: Vec<_> = entries.iter().collect();
                entries.sort_by_key(|(key, _)| (key.len(), key.as_bytes()));
                let entries: Vec<_> = entries
                    .iter()
                    .map(|(key, value)| format!("{}: {}", self::text(key), spell(value)))
                    .collect();
                format!("{{{}}}", entries.join(", "))
            }
            leaf => self::text(leaf),
        }
    }
    assert_eq!(text, spell(value));
}

#[test]
fn the_edges_of_every_number_come_back() {
    comes_back(&[u64::MAX, u64::MIN]);
    comes_back(&[i64::MAX, i64::MIN]);
    comes_back(&[u128::MAX, u128::MIN]);
    comes_back(&[i128::MAX, i128::MIN]);
    for float in [
        f64::MAX,
        f64::MIN,
        f64::MIN_POSITIVE,
        f64::from_bits(1),
        f64::from_bits((1 << 52) - 1),
        f64::EPSILON,
        1e15,
        1e16,
        1e22,
        1e23,
        9_007_199_254_740_993.0,
        9_223_372_036_854_775_808.0,
        18_446_744_073_709_551_616.0,
        2.225_073_858_507_201e-308,
    ] {
        comes_back(&[float, -float]);
        comes_back(&[Untagged::Float(float), Untagged::Float(-float)]);
    }
    for float in [
        f32::MAX,
        f32::MIN_POSITIVE,
        f32::from_bits(1),
        16_777_216.0,
        1e16,
        18_446_744_073_709_551_616.0,
    ] {
        comes_back(&[float, -float]);
        comes_back(&Untagged::Many(vec![float, -float]));
    }
}

#[test]
fn an_f32_that_double_rounding_would_move_comes_back_through_a_buffer() {
    for price in [7.038_531e-26, -7.038_531e-26] {
        let value = Untagged::Struct { price };
        assert_eq!(Value::encode(&value).unwrap().decode::<Untagged>().unwrap(), value);
        assert_eq!(Value::encode(&price).unwrap().decode::<f32>().unwrap(), price);
    }
}
