//! The workflow: charge the items of an order at once, post a ledger line, let the money settle, have large sums
//! approved, pay.

use std::time::Duration;

use futures_util::future::try_join_all;
use passbook::{Run, Workflow};
use serde::{Deserialize, Serialize};

use crate::account::{Account, Told, euros};
use crate::ledger::Ledger;

/// Sums above this many cents are paid only when somebody has approved them.
pub(crate) const APPROVAL_LIMIT: i64 = 50_000;
/// The key under which the approval arrives.
pub(crate) const APPROVED_BY: &str = "approved-by";

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) id: String,
    pub(crate) customer: String,
    pub(crate) items: Vec<Item>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Item {
    sku: String,
    cents: i64,
}

impl Order {
    pub(crate) fn total(&self) -> i64 {
        self.items.iter().map(|item| item.cents).sum()
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Receipt {
    pub(crate) cents: i64,
    pub(crate) approved_by: Option<String>,
}

/// What the body needs: here, the file that stands for the world outside.
pub(crate) struct Payout {
    pub(crate) account: Account,
}

impl<S: Ledger> Workflow<S> for Payout {
    const NAME: &'static str = "payout";
    type Input = Order;
    type Output = Receipt;
    type Error = std::io::Error;

    async fn run(&self, run: &Run<S>, order: Order) -> std::io::Result<Receipt> {
        // All items at once. Each is a step of its own, so a crash repeats only those that were not recorded.
        try_join_all(order.items.iter().map(|item| self.charge(run, &order, item))).await?;

        // Exactly once: the ledger line and the record of the step are one commit.
        let posted = Told::new(&order.id, "ledger");
        run.transact("ledger", async |tx| {
            posted.begins();
            S::post(tx, &order.id, order.total()).await
        })
        .await
        .map_err(std::io::Error::other)?;
        posted.recorded(&format!(
            "{} posted, in one commit with its record",
            euros(order.total())
        ));

        // No memory and no thread while it sleeps; the deadline is a record.
        run.sleep("settling", Duration::from_secs(3)).await;

        let approved_by = if order.total() > APPROVAL_LIMIT {
            Some(run.awaiting::<String>(APPROVED_BY).await)
        } else {
            None
        };

        let paid = Told::new(&order.id, "paid");
        run.step("paid", async || {
            paid.begins();
            self.account
                .effect(&["paid", &order.id, &order.total().to_string()])
                .await
        })
        .await?;
        paid.recorded(&format!("{} to {}", euros(order.total()), order.customer));
        Ok(Receipt {
            cents: order.total(),
            approved_by,
        })
    }
}

impl Payout {
    async fn charge<S: Ledger>(&self, run: &Run<S>, order: &Order, item: &Item) -> std::io::Result<()> {
        let name = format!("charged {}", item.sku);
        let charged = Told::new(&order.id, &name);
        run.step(&name, async || {
            charged.begins();
            // The gateway takes its time. A real one would be given `run.key(&name)`, so that a repeated call counts once.
            tokio::time::sleep(Duration::from_millis(300)).await;
            let cents = item.cents.to_string();
            self.account.effect(&["charged", &order.id, &item.sku, &cents]).await
        })
        .await?;
        charged.recorded(&euros(item.cents));
        Ok(())
    }
}
