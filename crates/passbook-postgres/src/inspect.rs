//! Only for looking.

use passbook::{Durable as _, Endings, Filter, Finished, Inspect, Result, State, Status};

use crate::connection::Asking;
use crate::scheduler::limit;
use crate::{PostgresCheckpointer, PostgresDurable, rows};

/// The longest page of a list.
const PAGE: usize = 1_000;

impl Inspect for PostgresCheckpointer {
    async fn status(&self, workflow: &str) -> Result<Option<Status>> {
        let now = self.0.bound_now();
        let what = || format!("read the status of workflow `{workflow}`");
        let rows = self
            .0
            .ask(&self.0.statements.status, |q| q.bind(workflow).bind(now), what)
            .await?;
        Ok(rows::all(&rows, rows::status, "read a status")?.into_iter().next())
    }

    async fn list(&self, filter: &Filter) -> Result<Vec<Status>> {
        let (page, now) = (limit(filter.limit.min(PAGE)), self.0.bound_now());
        let bind = |q: Asking| {
            let q = q
                .bind(filter.namespace.as_deref())
                .bind(filter.state.map(State::as_str));
            q.bind(filter.after.as_deref()).bind(page).bind(now)
        };
        let rows = self
            .0
            .ask(&self.0.statements.list, bind, || "list workflows".to_owned())
            .await?;
        rows::all(&rows, rows::status, "list workflows")
    }

    async fn finished(&self, workflows: &[String]) -> Result<Vec<Finished>> {
        let what = || format!("read the results of {} workflows", workflows.len());
        let rows = self
            .0
            .ask(&self.0.statements.finished, |q| q.bind(workflows), what)
            .await?;
        rows::all(&rows, rows::finished, "read results")
    }

    fn endings(&self) -> Endings {
        self.0.endings()
    }
}

impl Inspect for PostgresDurable {
    async fn status(&self, workflow: &str) -> Result<Option<Status>> {
        self.checkpointer().status(workflow).await
    }

    async fn list(&self, filter: &Filter) -> Result<Vec<Status>> {
        self.checkpointer().list(filter).await
    }

    async fn finished(&self, workflows: &[String]) -> Result<Vec<Finished>> {
        self.checkpointer().finished(workflows).await
    }

    fn endings(&self) -> Endings {
        self.link().endings()
    }
}
