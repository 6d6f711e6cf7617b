//! Only for looking.

use passbook::{Endings, Filter, Finished, Inspect, Result, State, Status};
use sqlx::SqliteConnection;

use crate::error::Doing;
use crate::rows;
use crate::{SqliteCheckpointer, SqliteDurable, SqliteFile};

const LIST: &str = include_str!("../sql/list.sql");
const FINISHED: &str = include_str!("../sql/finished.sql");

/// No page is longer, whatever was asked for.
const LONGEST_PAGE: usize = 1_000;

impl Inspect for SqliteDurable {
    async fn status(&self, workflow: &str) -> Result<Option<Status>> {
        status(self.file(), workflow).await
    }

    async fn list(&self, filter: &Filter) -> Result<Vec<Status>> {
        list(self.file(), filter).await
    }

    async fn finished(&self, workflows: &[String]) -> Result<Vec<Finished>> {
        finished(self.file(), workflows).await
    }

    fn endings(&self) -> Endings {
        self.file().endings()
    }
}

/// Sees the queue that is in the same file, whichever queue is in use.
impl Inspect for SqliteCheckpointer {
    async fn status(&self, workflow: &str) -> Result<Option<Status>> {
        status(&self.file, workflow).await
    }

    async fn list(&self, filter: &Filter) -> Result<Vec<Status>> {
        list(&self.file, filter).await
    }

    async fn finished(&self, workflows: &[String]) -> Result<Vec<Finished>> {
        finished(&self.file, workflows).await
    }

    fn endings(&self) -> Endings {
        self.file.endings()
    }
}

async fn status(file: &SqliteFile, workflow: &str) -> Result<Option<Status>> {
    let mut reader = file.read().await?;
    let filter = Filter {
        limit: 1,
        ..Filter::default()
    };
    let mut page = page(&mut reader, file, Some(workflow), &filter).await?;
    Ok(page.pop())
}

async fn list(file: &SqliteFile, filter: &Filter) -> Result<Vec<Status>> {
    let mut reader = file.read().await?;
    page(&mut reader, file, None, filter).await
}

async fn page(
    reader: &mut SqliteConnection,
    file: &SqliteFile,
    only: Option<&str>,
    filter: &Filter,
) -> Result<Vec<Status>> {
    let limit = filter.limit.min(LONGEST_PAGE);
    let doing = || match only {
        Some(workflow) => format!("look where workflow `{workflow}` stands"),
        None => format!("list the workflows of `{}`", file.path().display()),
    };
    let rows = sqlx::query(LIST)
        .bind(only)
        .bind(filter.after.as_deref().unwrap_or(""))
        .bind(file.now().as_micros())
        .bind(filter.namespace.as_deref())
        .bind(filter.state.map(State::as_str))
        .bind(i64::try_from(limit).unwrap_or(i64::MAX))
        .fetch_all(reader)
        .await
        .doing(doing)?;
    rows.iter().map(rows::status).collect::<sqlx::Result<_>>().doing(doing)
}

async fn finished(file: &SqliteFile, workflows: &[String]) -> Result<Vec<Finished>> {
    if workflows.is_empty() {
        return Ok(Vec::new());
    }
    let mut reader = file.read().await?;
    let doing = || format!("look which of {} workflows are over", workflows.len());
    let rows = sqlx::query(FINISHED)
        .bind(rows::list_of_names(workflows)?.as_str())
        .fetch_all(&mut *reader)
        .await
        .doing(doing)?;
    rows.iter()
        .map(rows::finished)
        .collect::<sqlx::Result<_>>()
        .doing(doing)
}
