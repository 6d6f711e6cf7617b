//! How a database is used.

use std::time::Duration;

use passbook::{Clock, Error, Result};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection as _, PgConnection};

use crate::connection::Link;
use crate::error::Doing;
use crate::{Postgres, PostgresCheckpointer, PostgresScheduler};

/// A connection that lay idle for so long is asked for a sign of life before it is used: what stands between may have
/// forgotten it.
const IDLE: Duration = Duration::from_secs(5);

/// How a database is used.
///
/// ```no_run
/// use std::time::Duration;
/// use passbook_postgres::Postgres;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> passbook::Result<()> {
/// let options = Postgres::options().schema("workflows").lease(Duration::from_secs(60));
/// let store = options.connect("postgres://shop@localhost/shop").await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct PostgresOptions {
    pub(crate) lease: Duration,
    pub(crate) poll: Duration,
    pub(crate) clock: Clock,
    pub(crate) schema: Option<String>,
    pub(crate) pooler: bool,
    pub(crate) batching: bool,
    pub(crate) hints: bool,
    connections: u32,
    patience: Duration,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(30),
            poll: Duration::from_secs(1),
            clock: Clock::store(),
            schema: None,
            pooler: false,
            batching: true,
            hints: true,
            connections: 10,
            patience: Duration::from_secs(30),
        }
    }
}

impl PostgresOptions {
    /// How long one sign of life is good for. 30 seconds unless told otherwise. Refused when it is shorter than three round
    /// trips to the server. All processes on one database should use the same.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// How long an idle worker waits at most before it looks again. One second unless told otherwise. What a process makes
    /// ready is told to idle workers everywhere at once ([`hints`](PostgresOptions::hints)), and the next moment that
    /// something is due sets the timer; the poll finds what was not told, e.g. what another program wrote.
    pub fn poll(mut self, poll: Duration) -> Self {
        self.poll = poll;
        self
    }

    /// The clock that deadlines are judged by: the server's, unless a test moves one of its own.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// The schema of the tables. Unless told otherwise, the first of the connection's search path. Letters, digits and
    /// underscores, at most 63.
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.schema = Some(schema.into());
        self
    }

    /// Whether the connections go through a transaction pooler such as PgBouncer. Statements are then not prepared under a
    /// name, and each is sent inside its own transaction, which costs two round trips more. Recognised by itself when the
    /// URL says `statement-cache-capacity=0`.
    pub fn pooler(mut self, pooler: bool) -> Self {
        self.pooler = pooler;
        self
    }

    /// Whether starts, arrivals, records and settlements that are asked for while one of their kind is in flight go together
    /// in the next statement. They do unless told otherwise. A lone one is not delayed by it, a bad one fails alone, and a
    /// call returns when its commit did, either way.
    pub fn batching(mut self, batching: bool) -> Self {
        self.batching = batching;
        self
    }

    /// Whether processes tell each other by LISTEN and NOTIFY what is ready and what has ended. They do unless told
    /// otherwise: at most a hundred NOTIFYs a second of each process, after the commits that they speak of, on a connection
    /// kept for that; another one listens. Behind a pooler nothing is heard. Nothing rests on it: what was not told is found
    /// by the poll.
    ///
    /// Another program that makes a workflow ready may say so itself: `SELECT pg_notify('passbook', '')`, or
    /// `passbook:SCHEMA` where the tables are in a schema that is named.
    pub fn hints(mut self, hints: bool) -> Self {
        self.hints = hints;
        self
    }

    /// How many connections [`connect`](PostgresOptions::connect) opens at most, beside the one for signs of life and
    /// the two for hints. 10 unless told otherwise.
    pub fn connections(mut self, connections: u32) -> Self {
        self.connections = connections;
        self
    }

    /// How long a call waits for a free connection before it fails as unavailable. 30 seconds unless told otherwise.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Connects, and sees that the server answers. The schema is made by [`prepare`](passbook::Scheduler::prepare), which
    /// every worker calls at boot.
    pub async fn connect(mut self, url: &str) -> Result<Postgres> {
        if url.contains("statement-cache-capacity=0") {
            self.pooler = true;
        }
        self.check()?;
        if self.connections == 0 {
            return Err(Error::invalid(
                "a Postgres store with no connections cannot work; give it one or more",
            ));
        }
        let mut connect: PgConnectOptions = url.parse().map_err(|error: sqlx::Error| {
            Error::invalid("the database URL cannot be read; it looks like postgres://user:password@host:5432/name")
                .with_source(error)
        })?;
        if self.pooler {
            connect = connect.statement_cache_capacity(0);
        } else if !url.contains("jit") {
            // On tables that were never analyzed the server thinks our look-ups dear, and would compile them, for longer than
            // they run. A pooler refuses such an option.
            connect = connect.options([("jit", "off")]);
        }
        let place = format!("{}:{}", connect.get_host(), connect.get_port());
        let what = || format!("connect to Postgres at {place}");
        // A pool would ask for as long as its patience lasts; a person who has mistyped wants to know now.
        PgConnection::connect_with(&connect)
            .await
            .doing(what)?
            .close()
            .await
            .doing(what)?;
        let pool = PgPoolOptions::new()
            .max_connections(self.connections)
            .acquire_timeout(self.patience)
            // The driver would ask before every use, which makes two round trips of each statement.
            .test_before_acquire(false)
            .before_acquire(|connection, seen| {
                Box::pin(async move {
                    if seen.idle_for > IDLE {
                        connection.ping().await?;
                    }
                    Ok(true)
                })
            })
            .connect_with(connect)
            .await
            .doing(what)?;
        let checkpointer = PostgresCheckpointer::new(pool.clone(), &self)?;
        let scheduler = PostgresScheduler::new(pool, &self)?;
        let store = Postgres::new(checkpointer, scheduler)?;
        store.link().check_round_trip().await?;
        Ok(store)
    }

    pub(crate) fn check(&self) -> Result<()> {
        for (name, duration) in [("lease", self.lease), ("poll", self.poll), ("patience", self.patience)] {
            if duration.is_zero() || duration > Link::LONGEST {
                return Err(Error::invalid(format!(
                    "the {name} of a Postgres store is {duration:?}; give more than zero and at most seven days"
                )));
            }
        }
        let fits = |schema: &String| {
            schema.len() <= 63
                && schema.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
                && schema.chars().all(|each| each.is_ascii_alphanumeric() || each == '_')
        };
        match &self.schema {
            Some(schema) if !fits(schema) => Err(Error::invalid(format!(
                "`{}` cannot name a schema; use at most 63 letters, digits and underscores, a letter first",
                schema.escape_debug()
            ))),
            _ => Ok(()),
        }
    }
}
