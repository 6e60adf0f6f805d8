//! Sessions that wait for a row that another holds.

use lab::{Account, Lab};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use tokio::task::JoinHandle;

/// Sessions on the primary that wait for one row, as long as the task lives.
pub(crate) async fn wait_for_a_row(lab: &Lab) -> JoinHandle<()> {
    let opts = lab.opts("a", "a1", Account::App).unwrap();
    let mut holder = lab.connect("a1").await.unwrap();
    holder.query_drop("CREATE TABLE app.page (id INT PRIMARY KEY, n INT)").await.unwrap();
    holder.query_drop("INSERT INTO app.page VALUES (1, 0)").await.unwrap();
    holder.query_drop("BEGIN").await.unwrap();
    holder.query_drop("UPDATE app.page SET n = 1 WHERE id = 1").await.unwrap();
    tokio::spawn(async move {
        let mut waiting = tokio::task::JoinSet::new();
        for _ in 0..8 {
            let opts = opts.clone();
            waiting.spawn(async move {
                let mut conn = Conn::new(opts).await.unwrap();
                loop {
                    // Waits that time out are begun again.
                    let _ = conn.query_drop("UPDATE app.page SET n = n + 1 WHERE id = 1").await;
                }
            });
        }
        waiting.join_all().await;
        drop(holder);
    })
}
