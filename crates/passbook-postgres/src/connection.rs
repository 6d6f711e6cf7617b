//! How statements reach the server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use passbook::{Clock, Error, Result, Timestamp};
use sqlx::postgres::types::PgInterval;
use sqlx::postgres::{PgArguments, PgPool, PgRow};
use sqlx::query::Query;
use sqlx::{Connection as _, PgConnection, Postgres};
use time::OffsetDateTime;
use tokio::sync::Mutex;

use crate::PostgresOptions;
use crate::at_hand::AtHand;
use crate::batch::Batcher;
use crate::error::{Doing, is_collision};
use crate::hints::Telling;
use crate::horizon::Horizon;
use crate::requests::{Arrival, Message, Recording, Start};
use crate::rows::moment;
use crate::settling::Settling;
use crate::statements::{Statements, safe};

/// A statement that parameters are bound to.
pub(crate) type Asking = Query<'static, Postgres, PgArguments>;

/// How often a statement that collided with another is sent again. Rows are locked in one order everywhere, so a collision is
/// with somebody else's transaction, and soon over.
pub(crate) const COLLISIONS: u32 = 5;

/// What the halves of a store need to speak to the server.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) pool: PgPool,
    pub(crate) at_hand: AtHand,
    pub(crate) statements: Statements,
    pub(crate) schema: Option<String>,
    pub(crate) lease: Duration,
    pub(crate) poll: Duration,
    pub(crate) clock: Clock,
    pub(crate) hints: bool,
    pub(crate) telling: Telling,
    pub(crate) horizon: Horizon,
    pub(crate) batching: bool,
    pub(crate) records: Batcher<Recording>,
    pub(crate) starts: Batcher<Start>,
    pub(crate) arrivals: Batcher<Arrival>,
    pub(crate) messages: Batcher<Message>,
    pub(crate) settlements: Batcher<Settling>,
    pub(crate) pooler: bool,
    /// Signs of life have a connection of their own: effects that hold every connection of the pool must not starve them.
    pub(crate) lifeline: Own,
    /// So have hints to other processes, which must not take a connection from a write.
    pub(crate) teller: Own,
}

/// A connection for one purpose, opened when it is first needed and again after it broke.
#[derive(Debug, Default)]
pub(crate) struct Own(Mutex<Option<PgConnection>>);

impl Link {
    pub(crate) const LONGEST: Duration = Duration::from_hours(7 * 24);

    pub(crate) fn new(pool: PgPool, options: &PostgresOptions) -> Result<Arc<Self>> {
        options.check()?;
        Ok(Arc::new(Self {
            pool,
            at_hand: AtHand::default(),
            statements: Statements::new(options.schema.as_deref()),
            schema: options.schema.clone(),
            lease: options.lease,
            poll: options.poll,
            clock: options.clock.clone(),
            hints: options.hints,
            telling: Telling::default(),
            horizon: Horizon::default(),
            batching: options.batching,
            records: Batcher::default(),
            starts: Batcher::default(),
            arrivals: Batcher::default(),
            messages: Batcher::default(),
            settlements: Batcher::default(),
            pooler: options.pooler,
            lifeline: Own::default(),
            teller: Own::default(),
        }))
    }

    /// The bound moment, for statements that take the server's own time when it is NULL.
    pub(crate) fn bound_now(&self) -> Option<OffsetDateTime> {
        self.clock.bound().map(moment)
    }

    pub(crate) fn lease_interval(&self) -> PgInterval {
        PgInterval {
            months: 0,
            days: 0,
            // Checked at construction to be at most a week.
            microseconds: i64::try_from(self.lease.as_micros()).unwrap_or(i64::MAX),
        }
    }

    /// Whether statements may be prepared under a name.
    pub(crate) fn persistent(&self) -> bool {
        !self.pooler
    }

    /// Sends one statement as a transaction of its own, and again when it collided with another.
    pub(crate) async fn ask(
        &self,
        sql: &Arc<str>,
        bind: impl Fn(Asking) -> Asking,
        what: impl Fn() -> String,
    ) -> Result<Vec<PgRow>> {
        let mut lent = self.at_hand.take(&self.pool).await.doing(&what)?;
        let rows = self.send(&mut lent.connection, sql, bind, what).await?;
        self.at_hand.give_back(&self.pool, lent);
        Ok(rows)
    }

    /// Sends one statement, and again when it collided with another: on the same connection, which answers only when the
    /// locks of what failed are released. Another would skip the rows that are still locked.
    async fn send(
        &self,
        connection: &mut PgConnection,
        sql: &Arc<str>,
        bind: impl Fn(Asking) -> Asking,
        what: impl Fn() -> String,
    ) -> Result<Vec<PgRow>> {
        let mut collided = 0;
        loop {
            let statement = bind(sqlx::query(safe(sql)).persistent(self.persistent()));
            let rows = if self.pooler {
                Self::wrapped(connection, statement).await
            } else {
                statement.fetch_all(&mut *connection).await
            };
            match rows {
                Err(error) if is_collision(&error) && collided < COLLISIONS => collided += 1,
                rows => return rows.doing(what),
            }
        }
    }

    /// Behind a pooler, parsing and binding reach the same server only within a transaction.
    async fn wrapped(connection: &mut PgConnection, statement: Asking) -> sqlx::Result<Vec<PgRow>> {
        let mut transaction = connection.begin().await?;
        let rows = statement.fetch_all(&mut *transaction).await?;
        transaction.commit().await?;
        Ok(rows)
    }

    /// The store's time.
    pub(crate) async fn now(&self) -> Result<Timestamp> {
        let now = self.bound_now();
        let rows = self
            .ask(&self.statements.now, |q| q.bind(now), || "read the time".to_owned())
            .await?;
        crate::rows::one(&rows, |row| crate::rows::timestamp(row, "now"), "read the time")
    }

    /// Refuses a lease that signs of life could not keep up with.
    pub(crate) async fn check_round_trip(&self) -> Result<()> {
        // The first one prepares the statement.
        self.now().await?;
        let asked = Instant::now();
        self.now().await?;
        let trip = asked.elapsed();
        if self.lease < trip * 3 {
            return Err(Error::invalid(format!(
                "the lease of {:?} is shorter than three round trips to the server, of {trip:?} each; give it a longer one",
                self.lease
            )));
        }
        Ok(())
    }
}

impl Own {
    /// Sends one statement as a transaction of its own, and again when it collided with another.
    pub(crate) async fn ask(
        &self,
        link: &Link,
        sql: &Arc<str>,
        bind: impl Fn(Asking) -> Asking,
        what: impl Fn() -> String,
    ) -> Result<Vec<PgRow>> {
        let mut own = self.0.lock().await;
        // Taken out while it is used: if this future is dropped half-way, the connection is dropped with it.
        let mut connection = match own.take() {
            Some(connection) => connection,
            None => PgConnection::connect_with(&link.pool.connect_options())
                .await
                .doing(&what)?,
        };
        let rows = link.send(&mut connection, sql, bind, what).await?;
        *own = Some(connection);
        Ok(rows)
    }
}
