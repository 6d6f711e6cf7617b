//! What the codec of recorded values promises, through its public interface.

#![expect(clippy::float_cmp, reason = "floats come back exactly")]

use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;

use passbook::{MAX_DEPTH, MAX_VALUE_BYTES, Refused, Value};
use proptest::collection::{btree_map, hash_map, vec};
use proptest::prelude::*;
use serde::de::DeserializeOwned;
use serde::ser::{Error as _, SerializeMap as _, SerializeSeq as _, SerializeStruct as _};
use serde::{Deserialize, Serialize, Serializer};

/// Writes and reads a value, and checks on the way that its text is canonical.
fn through<T: Serialize + DeserializeOwned>(value: &T) -> T {
    let encoded = Value::encode(value).unwrap();
    let parsed = Value::parse(encoded.as_str()).unwrap();
    assert_eq!(encoded, parsed, "the text is in its own canonical form");
    let json = serde_json::to_string(value).unwrap();
    let untyped: serde_json::Value = serde_json::from_str(encoded.as_str()).unwrap();
    let expected: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(bare(untyped), bare(expected), "it is what serde_json represents");
    Value::stored(encoded.as_str()).decode().unwrap()
}

/// Without the sign of a negative zero, which a store does not keep.
fn bare(value: serde_json::Value) -> serde_json::Value {
    match value {
        serde_json::Value::Number(number) if number.as_f64() == Some(0.0) => 0.into(),
        serde_json::Value::Array(items) => items.into_iter().map(bare).collect(),
        serde_json::Value::Object(entries) => {
            let entries = entries.into_iter();
            entries.map(|(key, value)| (key, bare(value))).collect()
        }
        other => other,
    }
}

#[track_caller]
fn comes_back<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) {
    assert_eq!(&through(value), value);
}

#[track_caller]
fn text<T: Serialize + ?Sized>(value: &T) -> String {
    Value::encode(value).unwrap().to_string()
}

#[track_caller]
fn refused<T: Serialize + ?Sized>(value: &T) -> Refused {
    Value::encode(value).unwrap_err()
}

#[derive(Serialize, Deserialize, Debug, PartialEq, Clone, Copy)]
struct Unit;

#[derive(Serialize, Deserialize, Debug, PartialEq, Clone)]
struct Newtype(f64);

#[derive(Serialize, Deserialize, Debug, PartialEq, Clone)]
struct Pair(i128, String);

#[derive(Serialize, Deserialize, Debug, PartialEq, Clone)]
enum External {
    Unit,
    Newtype(f32),
    Tuple(u8, String),
    Struct { price: f64, id: u128 },
}

#[derive(Serialize, Deserialize, Debug, PartialEq, Clone)]
#[serde(tag = "type")]
enum Internal {
    Unit,
    Newtype(BTreeMap<String, f32>),
    Struct { price: f32, id: u64 },
}

#[derive(Serialize, Deserialize, Debug, PartialEq, Clone)]
#[serde(tag = "type", content = "of")]
enum Adjacent {
    Unit,
    Newtype(f64),
    Tuple(u8, String),
    Struct { price: f64, id: u128 },
}

#[derive(Serialize, Deserialize, Debug, PartialEq, Clone)]
#[serde(untagged)]
enum Untagged {
    Whole(u64),
    Negative(i64),
    Float(f64),
    Text(String),
    Many(Vec<f32>),
    Struct { price: f32 },
}

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

struct Bytes<'a>(&'a [u8]);

impl Serialize for Bytes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.0)
    }
}

/// Passes text as `serde_json` does for its own types.
#[derive(Clone, Copy)]
struct Verbatim(&'static str, &'static str);

impl Serialize for Verbatim {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut whole = serializer.serialize_struct(self.0, 1)?;
        whole.serialize_field(self.0, self.1)?;
        whole.end()
    }
}

const NUMBER: &str = "$serde_json::private::Number";
const RAW_VALUE: &str = "$serde_json::private::RawValue";

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
