//! Transitions inside the caller's own transaction.

use std::sync::Arc;

use passbook::{Enlist, Recorded, Result, Value, check_name};
use sqlx::PgConnection;
use sqlx::postgres::PgRow;

use crate::PostgresDurable;
use crate::connection::Asking;
use crate::durable::check;
use crate::error::Doing;
use crate::requests::{arrived, delivered, started};
use crate::statements::safe;

impl PostgresDurable {
    async fn ask_in(
        &self,
        tx: &mut PgConnection,
        sql: &Arc<str>,
        bind: impl FnOnce(Asking) -> Asking,
        what: impl FnOnce() -> String,
    ) -> Result<Vec<PgRow>> {
        let statement = bind(sqlx::query(safe(sql)).persistent(self.link().persistent()));
        statement.fetch_all(tx).await.doing(what)
    }
}

/// The connection must be in a transaction on the database of this store; without one, each call is a transaction of its own.
/// The store does not know of the commit: say so with [`committed`](Enlist::committed), or the poll finds the workflow.
///
/// The transaction holds the workflow's queue row until it ends: no pass of that workflow is taken or settled meanwhile, and
/// nobody else's is delayed.
impl Enlist for PostgresDurable {
    async fn start_in(
        &self,
        tx: &mut PgConnection,
        namespace: &str,
        workflow: &str,
        input: &Value,
    ) -> Result<Recorded> {
        check(namespace, workflow)?;
        let now = self.link().bound_now();
        let bind = |q: Asking| q.bind(namespace).bind(workflow).bind(input.as_str()).bind(now);
        let what = || format!("start workflow `{workflow}`");
        let rows = self.ask_in(tx, &self.link().statements.start, bind, what).await?;
        started(&rows, input, namespace, workflow)
    }

    async fn arrive_in(
        &self,
        tx: &mut PgConnection,
        namespace: &str,
        workflow: &str,
        key: &str,
        value: &Value,
    ) -> Result<Recorded> {
        check(namespace, workflow)?;
        check_name("key", key)?;
        let now = self.link().bound_now();
        let bind = |q: Asking| {
            q.bind(namespace)
                .bind(workflow)
                .bind(key)
                .bind(value.as_str())
                .bind(now)
        };
        let what = || format!("send `{key}` to workflow `{workflow}`");
        let rows = self.ask_in(tx, &self.link().statements.arrive, bind, what).await?;
        arrived(&rows, value, namespace, workflow)
    }

    async fn deliver_in(
        &self,
        tx: &mut PgConnection,
        namespace: &str,
        workflow: &str,
        value: &Value,
    ) -> Result<String> {
        check(namespace, workflow)?;
        let now = self.link().bound_now();
        let bind = |q: Asking| q.bind(namespace).bind(workflow).bind(value.as_str()).bind(now);
        let what = || format!("deliver to workflow `{workflow}`");
        let rows = self.ask_in(tx, &self.link().statements.deliver, bind, what).await?;
        delivered(&rows, namespace, workflow)
    }

    fn committed(&self) {
        self.link().tell_ready(None);
    }
}
