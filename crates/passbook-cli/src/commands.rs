//! What each command does, on any store.

use std::io::Write as _;

use passbook::{Client, Durable, Error, Filter, Inspect, Recorded, Result, Scheduler, Status, Value};

use crate::Command;

pub(crate) async fn carry_out<S: Durable + Inspect>(store: S, command: Command) -> Result<bool> {
    let client = Client::new(store.clone());
    match command {
        Command::Migrate { .. } => {
            store.scheduler().prepare().await?;
            line("the schema is up to date")
        }
        Command::List {
            namespace,
            state,
            after,
            limit,
            json,
        } => {
            let filter = Filter {
                namespace,
                state,
                after,
                limit,
            };
            let page = store.list(&filter).await?;
            if !json {
                line(&format!("{:<9} {:<16} {:<32} detail", "state", "namespace", "workflow"))?;
            }
            for status in &page {
                if json {
                    line(&to_json(status)?)?;
                } else {
                    let Status {
                        state,
                        namespace,
                        workflow,
                        ..
                    } = status;
                    let row = format!("{state:<9} {namespace:<16} {workflow:<32} {}", detail(status));
                    line(row.trim_end())?;
                }
            }
            Ok(true)
        }
        Command::Status { workflow, json } => {
            let status = known(&store, &workflow).await?;
            if json {
                line(&to_json(&status)?)
            } else {
                describe(&status)
            }
        }
        Command::History { workflow } => {
            known(&store, &workflow).await?;
            for record in client.history(&workflow).await? {
                line(&format!("{}  {:<32} {}", record.recorded_at, record.step, record.value))?;
            }
            Ok(true)
        }
        Command::Arrive { workflow, key, value } => {
            let (namespace, value) = (known(&store, &workflow).await?.namespace, parse(&value)?);
            let Recorded { value, first } = store.arrive(&namespace, &workflow, &key, &value).await?;
            let who = if first {
                "arrived"
            } else {
                "lost: another value was first"
            };
            line(&format!("{who}; `{key}` of `{workflow}` is {value}"))?;
            Ok(first)
        }
        Command::Deliver { workflow, value } => {
            let (namespace, value) = (known(&store, &workflow).await?.namespace, parse(&value)?);
            let key = store.deliver(&namespace, &workflow, &value).await?;
            line(&format!("delivered to `{workflow}` as {key}"))
        }
        Command::Cancel { workflow } => {
            let cancelled = client.cancel(&workflow).await?;
            line(if cancelled { "cancelled" } else { "it was over already" })?;
            Ok(cancelled)
        }
        Command::Resume { workflow } => {
            let resumed = client.resume(&workflow).await?;
            line(if resumed {
                "it goes on"
            } else {
                "it is neither failed nor cancelled"
            })?;
            Ok(resumed)
        }
        Command::Delete { workflow } => {
            let records = client.delete(&workflow).await?;
            line(&format!("deleted, with {records} records"))
        }
    }
}

async fn known<S: Inspect>(store: &S, workflow: &str) -> Result<Status> {
    store.status(workflow).await?.ok_or_else(|| {
        Error::not_found(format!(
            "there is no workflow `{workflow}`; `passbook list` shows which there are"
        ))
    })
}

fn parse(text: &str) -> Result<Value> {
    Value::parse(text).map_err(|why| {
        Error::refused(format!(
            "the value `{text}` cannot be sent: {why}; a text needs its quotes, e.g. '\"ann\"'"
        ))
    })
}

fn to_json(status: &Status) -> Result<String> {
    serde_json::to_string(status).map_err(|error| Error::store("a status cannot be printed").with_source(error))
}

fn describe(status: &Status) -> Result<bool> {
    let moment = |at: Option<passbook::Timestamp>| at.map(|at| at.to_string());
    let rows = [
        ("workflow", Some(status.workflow.clone())),
        ("namespace", Some(status.namespace.clone())),
        ("state", Some(status.state.to_string())),
        (
            "waits_for",
            (!status.waits_for.is_empty()).then(|| status.waits_for.join(", ")),
        ),
        ("wake_at", moment(status.wake_at)),
        ("attempts", (status.attempts > 0).then(|| status.attempts.to_string())),
        ("running", status.running.clone()),
        ("error", status.error.clone()),
        ("records", Some(status.records.to_string())),
        ("started_at", moment(status.started_at)),
        ("finished_at", moment(status.finished_at)),
    ];
    for (name, value) in rows {
        if let Some(value) = value {
            line(&format!("{name:<12} {value}"))?;
        }
    }
    Ok(true)
}

/// What a list says of a workflow beside its state.
fn detail(status: &Status) -> String {
    let mut detail = Vec::new();
    if !status.waits_for.is_empty() {
        detail.push(format!("for {}", status.waits_for.join(", ")));
    }
    if let Some(at) = status.wake_at {
        detail.push(format!("until {at}"));
    }
    if let Some(error) = &status.error {
        detail.push(format!("attempt {}: {error}", status.attempts));
    }
    detail.join(", ")
}

pub(crate) fn line(text: &str) -> Result<bool> {
    match writeln!(std::io::stdout().lock(), "{text}") {
        Ok(()) => Ok(true),
        // Whoever read has read enough.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
        Err(error) => Err(Error::store("cannot print").with_source(error)),
    }
}
