//! A lab's server on a volume of the bench's own, with sysbench's table to read points of; from then on the
//! volume's limit of requests holds for it.

use crate::sysbench::{ACCOUNT, DATABASE, target};
use crate::volume::Volume;
use anyhow::Context;
use lab::Lab;
use load::workload::sysbench::Options;
use load::{Distribution, tables};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use std::net::SocketAddr;
use std::path::Path;
use term::terminal;

pub(super) const SERVER: &str = "a1";

pub(super) struct FilledServer {
    pub(super) address: SocketAddr,
    pub(super) root: Conn,
    /// Transactions of point reads, each row as likely as any other.
    pub(super) options: Options,
    pub(super) data_bytes: u64,
}

/// Makes the table; a transaction reads `points` rows.
pub(super) async fn fill(lab: &Lab, volume: &Volume, rows: u32, points: u32) -> anyhow::Result<FilledServer> {
    let address = SocketAddr::from(lab.real(SERVER)?);
    let mut root = lab.connect(SERVER).await?;
    for statement in [
        format!("CREATE DATABASE {DATABASE}"),
        format!("CREATE USER '{ACCOUNT}'@'%'"),
        format!("GRANT ALL ON *.* TO '{ACCOUNT}'@'%'"),
    ] {
        root.query_drop(statement).await?;
    }
    terminal::complain(&format!("{rows} rows"));
    let options = Options {
        table_size: rows,
        distribution: Distribution::Uniform,
        point_selects: points,
        range_selects: false,
        skip_trx: true,
        ..Options::default()
    };
    let (prepared, to) = (options.clone(), target(address));
    tokio::task::spawn_blocking(move || tables::prepare(&to, &prepared, 1, 1, |_| {})).await??;
    let data: Option<(u64, String)> = root
        .query_first(format!(
            "SELECT data_length, @@pid_file FROM information_schema.tables WHERE table_schema='{DATABASE}' AND \
             table_name='sbtest1'"
        ))
        .await?;
    let (data_bytes, pid_file) = data.context("the table is not there")?;
    volume.limit(std::fs::read_to_string(Path::new(&pid_file))?.trim().parse()?)?;
    Ok(FilledServer { address, root, options, data_bytes })
}
