//! The endpoints of the simulated API, and the statements one request of each sends. Pure: data size and
//! randomness are arguments.
//!
//! | endpoint | like | reads | writes |
//! |---|---|---|---|
//! | `timeline` | `GET /timeline`, read-heavy | 200 by primary key, 20 short ranges | none |
//! | `orders` | `POST /orders`, write-heavy | 2 by primary key | 2 transactions: lock, insert 4, update |
//! | `profile` | `GET /profile`, mixed | 4 by primary key, 1 short range | 1 update |

use rand::Rng;
use serde::Serialize;
use std::fmt;

/// An endpoint of the simulated API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Endpoint {
    /// `GET /timeline`: hundreds of small reads, as pages built from many objects are.
    Timeline,
    /// `POST /orders`: transactions on the primary, few reads.
    Orders,
    /// `GET /profile`: some reads and a write.
    Profile,
}

/// Rows in the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataSize {
    /// Rows of `account`.
    pub accounts: u32,
    /// Rows of `item`, spread evenly over the accounts.
    pub items: u32,
}

/// What a request does next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// One statement, on any server that is close enough to the present.
    Read(String),
    /// Statements in one session on the writer; more than one means a transaction, with its BEGIN and COMMIT.
    Write(Vec<String>),
}

impl Endpoint {
    /// All of them, in the order tables show them.
    pub const ALL: [Self; 3] = [Self::Timeline, Self::Orders, Self::Profile];
    const POINT_READS: usize = 200;
    const RANGE_READS: usize = 20;

    /// The name that statements carry.
    pub fn name(self) -> &'static str {
        match self {
            Self::Timeline => "timeline",
            Self::Orders => "orders",
            Self::Profile => "profile",
        }
    }

    /// Method and path.
    pub fn route(self) -> &'static str {
        match self {
            Self::Timeline => "GET /timeline",
            Self::Orders => "POST /orders",
            Self::Profile => "GET /profile",
        }
    }

    pub fn request(self, data: DataSize, rng: &mut impl Rng) -> Vec<Step> {
        let mut write = Writing { endpoint: self, data, rng };
        match self {
            Self::Timeline => {
                let each = Self::POINT_READS / Self::RANGE_READS;
                let mut steps = Vec::with_capacity(Self::POINT_READS + Self::RANGE_READS);
                for _ in 0..Self::RANGE_READS {
                    steps.push(write.items_of_account());
                    steps.extend((0..each).map(|_| write.item()));
                }
                steps
            }
            Self::Orders => vec![write.account(), write.order(), write.item(), write.order()],
            Self::Profile => {
                let mut steps = vec![write.account(), write.items_of_account()];
                steps.extend((0..3).map(|_| write.item()));
                steps.push(write.touch());
                steps
            }
        }
    }
}

/// Writes statements with random keys and the endpoint's tag.
struct Writing<'a, R> {
    endpoint: Endpoint,
    data: DataSize,
    rng: &'a mut R,
}

impl<R: Rng> Writing<'_, R> {
    fn tagged(&self, sql: fmt::Arguments<'_>) -> String {
        format!("{sql} /*endpoint='{}'*/", self.endpoint.name())
    }

    fn some_account(&mut self) -> u32 {
        self.rng.random_range(0..self.data.accounts)
    }

    fn item(&mut self) -> Step {
        let id = self.rng.random_range(0..self.data.items);
        Step::Read(self.tagged(format_args!("SELECT id, account_id, body FROM item WHERE id = {id}")))
    }

    fn account(&mut self) -> Step {
        let id = self.some_account();
        Step::Read(self.tagged(format_args!("SELECT id, name, balance FROM account WHERE id = {id}")))
    }

    fn items_of_account(&mut self) -> Step {
        let id = self.some_account();
        Step::Read(self.tagged(format_args!(
            "SELECT id, posted FROM item WHERE account_id = {id} ORDER BY posted DESC LIMIT 20"
        )))
    }

    fn touch(&mut self) -> Step {
        let id = self.some_account();
        Step::Write(vec![self.tagged(format_args!("UPDATE account SET visits = visits + 1 WHERE id = {id}"))])
    }

    fn order(&mut self) -> Step {
        let id = self.some_account();
        let mut sql = vec![
            "BEGIN".to_owned(),
            self.tagged(format_args!("SELECT balance FROM account WHERE id = {id} FOR UPDATE")),
        ];
        let lines = 3;
        sql.push(
            self.tagged(format_args!("INSERT INTO purchase (account_id, line_count) VALUES ({id}, {lines})")),
        );
        for _ in 0..lines {
            let item = self.rng.random_range(0..self.data.items);
            sql.push(self.tagged(format_args!(
                "INSERT INTO purchase_line (purchase_id, item_id) VALUES (LAST_INSERT_ID(), {item})"
            )));
        }
        sql.push(self.tagged(format_args!("UPDATE account SET balance = balance - 1 WHERE id = {id}")));
        sql.push("COMMIT".to_owned());
        Step::Write(sql)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.route())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    fn steps(endpoint: Endpoint) -> Vec<Step> {
        endpoint.request(DataSize { accounts: 100, items: 500 }, &mut StdRng::seed_from_u64(1))
    }

    #[test]
    fn the_timeline_reads_two_hundred_rows_and_twenty_ranges_and_writes_nothing() {
        let steps = steps(Endpoint::Timeline);
        let reads_with =
            |what: &str| steps.iter().filter(|s| matches!(s, Step::Read(sql) if sql.contains(what))).count();
        assert_eq!(steps.len(), 220);
        assert_eq!(reads_with("FROM item WHERE id ="), 200);
        assert_eq!(reads_with("ORDER BY posted"), 20);
    }

    #[test]
    fn every_statement_but_begin_and_commit_carries_its_endpoint() {
        for endpoint in Endpoint::ALL {
            let tag = format!("/*endpoint='{}'*/", endpoint.name());
            for step in steps(endpoint) {
                let sql = match step {
                    Step::Read(sql) => vec![sql],
                    Step::Write(sql) => sql,
                };
                for sql in sql.iter().filter(|s| *s != "BEGIN" && *s != "COMMIT") {
                    assert!(sql.ends_with(&tag), "{sql}");
                }
            }
        }
    }
}
