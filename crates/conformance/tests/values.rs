//! A workflow cannot tell which store it got by its values: each store takes the same, and gives them back to the byte.

use conformance::fixture::Fixture;
use conformance::stores::{Database, File, Memory};
use passbook::{Checkpointer, Durable, MAX_DEPTH, MAX_VALUE_BYTES, Value};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// JSON texts of every shape, with spaces, escapes, repeated keys and digits that no float holds.
fn any_json() -> impl Strategy<Value = String> {
    let number = prop_oneof![
        3 => "-?(0|[1-9][0-9]{0,40})(\\.[0-9]{1,40})?([eE][+-]?[0-9]{1,3})?",
        1 => any::<f64>().prop_filter("finite", |float| float.is_finite()).prop_map(|float| format!("{float:e}")),
        1 => any::<i64>().prop_map(|integer| integer.to_string()),
    ];
    let text = vec(
        prop_oneof![4 => any::<char>(), 1 => (1..0x80_u8).prop_map(char::from)],
        0..12,
    )
    .prop_map(|characters| {
        characters
            .into_iter()
            .filter(|character| *character != '\0')
            .collect::<String>()
    })
    .prop_map(|text| serde_json::to_string(&text).expect("a string"));
    let key = prop_oneof![text.clone(), "\"[ab]{0,2}\""];
    let word = prop_oneof![Just("null"), Just("true"), Just("false")].prop_map(str::to_owned);
    let leaf = prop_oneof![2 => number, 2 => text, 1 => word];
    leaf.prop_recursive(5, 48, 6, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(|items| format!("[ {} ]", items.join(" ,"))),
            vec((key.clone(), inner), 0..6).prop_map(|entries| {
                let entries: Vec<String> = entries
                    .into_iter()
                    .map(|(key, value)| format!("{key}\n:{value}"))
                    .collect();
                format!("{{{}\t}}", entries.join(","))
            }),
        ]
    })
}

/// What the store gives back of the values, in every way in which it gives values back.
async fn through(store: &impl Durable, workflow: &str, values: &[Value]) {
    let store = store.checkpointer();
    for (at, value) in values.iter().enumerate() {
        let step = at.to_string();
        let first = store.supply(workflow, &step, value).await.expect("a supply");
        assert!(first.first);
        assert_eq!(first.value.as_str(), value.as_str(), "as it was recorded");
        let again = store
            .supply(workflow, &step, &Value::encode("late").expect("a value"))
            .await;
        assert_eq!(
            again.expect("a supply").value.as_str(),
            value.as_str(),
            "as a loser is told"
        );
    }
    let records = store.load(workflow).await.expect("a load");
    let loaded: Vec<&str> = records.iter().map(|record| record.value.as_str()).collect();
    let expected: Vec<&str> = values.iter().map(Value::as_str).collect();
    assert_eq!(loaded, expected, "as it is loaded");
    store.discard(workflow).await.expect("a discard");
}

/// The stores hold what was canonical already, so each load is compared with the text that went in.
async fn any_value_comes_back<F: Fixture>(cases: u32) {
    let fixture = F::open().await;
    let store = fixture.store().clone();
    let runtime = tokio::runtime::Handle::current();
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    let ran = tokio::task::spawn_blocking(move || {
        TestRunner::new(config).run(&vec(any_json(), 1..12), |texts| {
            // What is refused is refused before any store sees it, and so by all of them.
            let values: Vec<Value> = texts.iter().filter_map(|text| Value::parse(text).ok()).collect();
            runtime.block_on(through(&store, "w", &values));
            Ok(())
        })
    });
    let ran = ran.await.unwrap();
    if let Err(failure) = ran {
        panic!("{failure}");
    }
    fixture.close().await;
}

/// What stands at the limits of what is taken is taken by each.
async fn the_limits_are_the_same<F: Fixture>() {
    let fixture = F::open().await;
    let brackets = format!("{}{}", "[".repeat(MAX_DEPTH), "]".repeat(MAX_DEPTH));
    let objects = format!("{}0{}", "{\"a\": ".repeat(MAX_DEPTH), "}".repeat(MAX_DEPTH));
    let mut texts: Vec<String> = [
        "1e131071",
        "-1e131071",
        "1e-16383",
        "0.0e-16382",
        "-0",
        "-0.0",
        "1.00",
        "1E2",
        "1e+2",
    ]
    .map(str::to_owned)
    .to_vec();
    texts.extend(
        [
            "\"\\ud83e\\udd80 \\u007f \\u001f \\/\"",
            "{\"b\":1,\"a\":2,\"aa\":3,\"b\":4}",
        ]
        .map(str::to_owned),
    );
    texts.extend([
        brackets,
        objects,
        format!("0.{}", "1".repeat(16_383)),
        "9".repeat(131_072),
    ]);
    texts.push(format!("\"{}\"", "a".repeat(MAX_VALUE_BYTES - 2)));
    let values: Vec<Value> = texts
        .iter()
        .map(|text| Value::parse(text).expect("it is within the limits"))
        .collect();
    through(fixture.store(), "w", &values).await;
    fixture.close().await;
}

mod memory {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn any_value_comes_back() {
        super::any_value_comes_back::<Memory>(200).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_limits_are_the_same() {
        super::the_limits_are_the_same::<Memory>().await;
    }
}

mod sqlite {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn any_value_comes_back() {
        super::any_value_comes_back::<File>(50).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_limits_are_the_same() {
        super::the_limits_are_the_same::<File>().await;
    }
}

mod postgres {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn any_value_comes_back() {
        super::any_value_comes_back::<Database>(200).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_limits_are_the_same() {
        super::the_limits_are_the_same::<Database>().await;
    }
}
