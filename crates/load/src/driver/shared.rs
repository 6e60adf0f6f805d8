//! What all threads of a run share and none changes.

use crate::error::LoadError;
use crate::login::Account;
use crate::run::Plan;
use crate::target::{Peer, TlsClient};
use crate::workload::{Lane, Protocol, Workload};
use config::DataPath;
use std::sync::Arc;
use std::time::Instant;

/// What all threads of a run share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) workload: Arc<Workload>,
    pub(crate) account: Account,
    /// How TLS is begun; `None` where it never is.
    pub(crate) tls: Option<TlsClient>,
    /// Lanes that the workload uses, with the addresses of each.
    pub(crate) lanes: Vec<(Lane, Vec<Peer>)>,
    /// Transactions of all threads together, at most.
    pub(crate) clients: u32,
    /// Connections of all threads to each lane.
    pub(crate) connections: u32,
    /// Sessions are read-only for the server too.
    pub(crate) read_only: bool,
    /// How bytes get to the servers and back.
    pub(crate) data_path: DataPath,
    /// Threads never sleep.
    pub(crate) busy: bool,
    /// Moments are counted from here.
    pub(crate) base: Instant,
    /// The number of the first variant of each statement.
    first_variant: Vec<usize>,
    variant_count: usize,
    /// What is prepared on a connection of each lane.
    prepares: [Vec<(usize, usize)>; 2],
}

impl Shared {
    pub(crate) fn new(plan: &Plan) -> Result<Self, LoadError> {
        let Plan { workload, target, clients, idle, read_only, data_path, busy, .. } = plan;
        workload.check()?;
        let lanes = workload.lanes().map(|lane| Ok((lane, target.resolve(lane)?)));
        let lanes = lanes.collect::<Result<Vec<_>, LoadError>>()?;
        let (mut first_variant, mut variant_count) = (Vec::new(), 0);
        let mut prepares = [Vec::new(), Vec::new()];
        for (number, statement) in workload.statements.iter().enumerate() {
            first_variant.push(variant_count);
            variant_count += statement.variants();
            if statement.protocol == Protocol::Prepared {
                let variants = (0..statement.variants()).map(|variant| (number, variant));
                prepares[statement.lane as usize].extend(variants);
            }
        }
        // Who never sleeps finds one answer at a time: without batches epoll is cheaper.
        let data_path = if *busy && *data_path == DataPath::Auto { DataPath::Epoll } else { *data_path };
        Ok(Self {
            workload: workload.clone(),
            account: target.account.clone(),
            tls: target.tls_client()?,
            lanes,
            clients: *clients,
            connections: clients.saturating_add(*idle),
            read_only: *read_only,
            data_path,
            busy: *busy,
            base: Instant::now(),
            first_variant,
            variant_count,
            prepares,
        })
    }

    /// The number of a variant of a statement among all variants of all statements.
    #[inline]
    pub(crate) fn variant_index(&self, statement: usize, variant: usize) -> usize {
        self.first_variant[statement] + variant
    }

    pub(crate) fn variant_count(&self) -> usize {
        self.variant_count
    }

    /// What is prepared on a connection of this lane.
    #[inline]
    pub(crate) fn prepares(&self, lane: Lane) -> &[(usize, usize)] {
        &self.prepares[lane as usize]
    }

    /// Now, in ns from the base.
    #[inline]
    pub(crate) fn now_ns(&self) -> u64 {
        self.base.elapsed().as_nanos() as u64
    }
}
