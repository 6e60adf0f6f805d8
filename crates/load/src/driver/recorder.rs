//! What a thread counts in a phase, and in the second of it that is running.

use super::Phase;
use super::client::Task;
use crate::counts::{Failure, PhaseCounts, Second};
use crate::reply::Reply;
use crate::workload::Workload;

const SECOND_NS: u64 = 1_000_000_000;

/// Counts one phase of one thread.
#[derive(Debug)]
pub(super) struct Recorder<'a> {
    phase: &'a Phase,
    counts: PhaseCounts,
    second: Second,
    delay: GeneratorDelay,
}

/// How much later than intended the generator itself began transactions of late. A start that is late by 4 ms
/// delays also those that come with it in one burst, so that it counts against all that begin within the
/// objective's time after it.
#[derive(Clone, Copy, Debug, Default)]
struct GeneratorDelay {
    longest_ns: u64,
    until_ns: u64,
}

impl GeneratorDelay {
    /// By how much the generator has delayed a transaction that begins now, this late.
    fn of(&mut self, lateness_ns: u64, now_ns: u64, objective_ns: Option<u64>) -> u64 {
        if lateness_ns >= self.longest_ns || now_ns > self.until_ns {
            let until_ns = now_ns + objective_ns.unwrap_or_default();
            *self = Self { longest_ns: lateness_ns, until_ns };
        }
        self.longest_ns
    }
}

impl<'a> Recorder<'a> {
    pub(super) fn new(phase: &'a Phase, workload: &Workload) -> Self {
        let delay = GeneratorDelay::default();
        Self { phase, counts: PhaseCounts::new(workload), second: Second::new(0), delay }
    }

    /// Transactions begun so far.
    pub(super) fn arrivals(&self) -> u64 {
        self.counts.arrivals
    }

    pub(super) fn begun(&mut self) {
        self.counts.arrivals += 1;
    }

    /// A transaction that was due at a moment fixed in advance begins, and is late by the generator's own
    /// doing by so much; returns by how much the generator has delayed it at most.
    pub(super) fn begun_late_by(&mut self, lateness_ns: u64, now_ns: u64) -> u64 {
        self.counts.lateness.saturating_record(lateness_ns);
        self.delay.of(lateness_ns, now_ns, self.phase.objective_ns)
    }

    /// The statement that was out is answered.
    pub(super) fn answered(&mut self, task: &Task, reply: &Reply, now_ns: u64) {
        let count = &mut self.counts.statements[task.statement];
        if now_ns <= self.phase.grace_ns {
            self.counts.queries += 1;
            self.second.queries += 1;
            count.rows += reply.rows;
        }
        if let Some(code) = reply.error {
            count.fail(Failure::Code(code));
            self.failed(task, Failure::Code(code));
        } else {
            count.response.saturating_record(now_ns.saturating_sub(task.sent_ns));
        }
    }

    /// The statement that was out will never be answered.
    pub(super) fn connection_lost(&mut self, task: &Task) {
        self.counts.statements[task.statement].fail(Failure::ConnectionLost);
    }

    /// A transaction has failed.
    pub(super) fn failed(&mut self, task: &Task, failure: Failure) {
        self.counts.transactions[task.transaction].fail(failure);
        self.second.failed += 1;
    }

    /// A transaction has ended well. A closed loop counts what ends in time; an open one everything that was
    /// due in time.
    pub(super) fn done(&mut self, task: &Task, now_ns: u64) {
        let open = self.phase.arrivals.is_open();
        if !open && now_ns > self.phase.end_ns {
            return;
        }
        let count = &mut self.counts.transactions[task.transaction];
        let response_ns = now_ns.saturating_sub(task.due_ns);
        count.response.saturating_record(response_ns);
        self.second.response.saturating_record(response_ns);
        if open {
            count.service.saturating_record(now_ns.saturating_sub(task.began_ns));
        }
        if let Some(own_ns) = task.own_ns {
            self.counts.own.saturating_record(own_ns);
        }
        if self.phase.objective_ns.is_some_and(|objective_ns| response_ns > objective_ns) {
            self.counts.late += 1;
            self.second.late += 1;
            let without_ns = Some(response_ns.saturating_sub(task.delay_ns));
            self.counts.excused += u64::from(without_ns <= self.phase.objective_ns);
        }
    }

    /// The phase is over, and a transaction is not; in a closed loop it is none of its.
    pub(super) fn unfinished(&mut self, task: &Task, now_ns: u64) {
        if self.phase.arrivals.is_open() && !task.failed {
            self.failed(task, Failure::Unfinished);
            self.counts.waiting.saturating_record(now_ns.saturating_sub(task.due_ns));
        }
    }

    /// The phase is over, and what was due at a moment never began.
    pub(super) fn not_started(&mut self, due_ns: u64, now_ns: u64) {
        self.counts.arrivals += 1;
        self.counts.not_started += 1;
        self.counts.waiting.saturating_record(now_ns.saturating_sub(due_ns));
    }

    /// When the second ends that is running.
    pub(super) fn second_ends_ns(&self) -> u64 {
        self.phase.start_ns + (self.second.index + 1) * SECOND_NS
    }

    /// The second that is over, if one is. What ends in the grace after the phase belongs to its last second.
    pub(super) fn take_second(&mut self, now_ns: u64) -> Option<Second> {
        let ends_ns = self.second_ends_ns();
        let over = now_ns >= ends_ns && ends_ns < self.phase.end_ns;
        over.then(|| {
            let next = Second::new(self.second.index + 1);
            std::mem::replace(&mut self.second, next)
        })
    }

    /// Everything, and the last second.
    pub(super) fn finish(self) -> (PhaseCounts, Second) {
        (self.counts, self.second)
    }
}
