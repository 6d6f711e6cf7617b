//! The Postgres that the test command starts, and a schema of its own for each test.

use std::sync::atomic::{AtomicU32, Ordering};

use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

/// The URL of a database where the tests may do as they like.
pub fn url() -> String {
    std::env::var("PASSBOOK_TEST_POSTGRES")
        .expect("these tests need a Postgres; `cargo xtask test` starts one for them and stops it again")
}

/// A schema of one test; dropped with it, unless the test failed.
#[derive(Debug)]
pub struct Schema {
    url: String,
    name: String,
}

/// Makes a name for a schema. Nothing is created yet; a store does that.
pub fn schema() -> Schema {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("t{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    Schema { url: url(), name }
}

impl Schema {
    /// The URL of the database that it is in.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A connection whose search path is this schema.
    pub async fn connection(&self) -> PgConnection {
        let mut connection = PgConnection::connect(&self.url).await.expect("the server answers");
        let path = format!("CREATE SCHEMA IF NOT EXISTS {0}; SET search_path = {0}", self.name);
        let path = sqlx::raw_sql(AssertSqlSafe(path)).execute(&mut connection).await;
        path.expect("the schema can be made");
        connection
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "the tables of this test are left in schema {} of {}",
                self.name, self.url
            );
            return;
        }
        let (url, name) = (self.url.clone(), self.name.clone());
        // A runtime of its own: the test's may be the one that drops this.
        let dropped = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let mut connection = PgConnection::connect(&url).await.map_err(std::io::Error::other)?;
                let drop = sqlx::raw_sql(AssertSqlSafe(format!("DROP SCHEMA IF EXISTS {name} CASCADE")));
                drop.execute(&mut connection).await.map_err(std::io::Error::other)?;
                std::io::Result::Ok(())
            })
        });
        if !matches!(dropped.join(), Ok(Ok(()))) {
            eprintln!("a schema of a test could not be dropped");
        }
    }
}
