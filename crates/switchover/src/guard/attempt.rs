//! What a guard does once that is decided: it fails over as `headroom failover` does, or performs what is
//! left of a failover that was cut off. How that ended it tells its loop, `run.rs`.

use super::run::GuardOptions;
use crate::Error;
use crate::failover::risk::{self, Guard as Fence, SourceEvidence};
use crate::failover::scene::Scene;
use crate::failover::{own_writes, text};
use crate::journal::Journal;
use crate::perform::{self, FenceBy, Logins, Plan, Progress};
use crate::step::State;
use config::Credentials;
use fleet::{ServerName, Snapshot};
use std::fmt::Display;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Whoever acts for a guard: without the lock, which the guard keeps meanwhile.
#[derive(Clone, Copy)]
pub(super) struct Operator<'a> {
    pub(super) options: &'a GuardOptions,
    pub(super) admin: &'a Credentials,
}

impl Operator<'_> {
    pub(super) fn logins(self) -> Logins {
        let flags = self.options.flags.clone();
        Logins { admin: self.admin.clone(), replication: Default::default(), flags }
    }

    /// Confirms that `primary` is dead or, where it is `gray`, hangs, and lets a replica take over. Sets
    /// `committed` just before the first step: from there on it is finished.
    ///
    /// # Errors
    /// It is not confirmed, or not all that is needed was read: nothing was begun.
    pub(super) async fn fail_over(
        self,
        snapshot: &Snapshot,
        primary: &ServerName,
        gray: bool,
        evidence: &SourceEvidence,
        committed: &AtomicBool,
    ) -> Result<Attempt, Error> {
        let (options, limit) = (self.options, self.options.deadline.max(Duration::from_secs(2)));
        let scene = match Scene::read(snapshot, Some(primary), self.admin, limit, &options.flags).await {
            // A replica that takes writes, or servers that follow different ones.
            Err(error @ Error::Refused { .. }) => return Ok(Attempt::ask(&error)),
            scene => scene?,
        };
        if !gray && scene.all_stopped() && !options.dry_run {
            match scene.nobody_was_promoted(self.admin, limit, &options.flags).await {
                Err(error @ Error::Refused { .. }) => return Ok(Attempt::ask(&error)),
                looked => looked?,
            }
            tracing::warn!(
                "the receivers of all replicas are stopped, by a failover that was cut off; started again: {}",
                scene.receive_again()
            );
            match scene.start_receivers(self.admin, limit).await {
                Err(error @ Error::LosesRelayLogs { .. }) => return Ok(Attempt::ask(&error)),
                started => started?,
            }
        }
        if gray {
            let evidence = scene.confirm_gray(self.admin, &options.rule, limit).await?;
            tracing::warn!("{primary} is confirmed gray: {evidence}");
        } else {
            let confirmed = scene.confirm(self.admin, &options.rule, options.within).await?;
            let views: Vec<String> =
                confirmed.views.iter().map(|(name, view)| format!("{name} {view:?}")).collect();
            tracing::warn!(
                looks = confirmed.looks,
                seconds = confirmed.took.as_secs_f64(),
                replicas = views.join(", "),
                "{primary} is confirmed dead"
            );
        }
        // Again, now that it is certain: what was received is final only from here on.
        let scene = Scene::read(snapshot, Some(primary), self.admin, limit, &options.flags).await?;
        let fence = match risk::decide(options.fence.is_some(), scene.rule_out_loss(evidence), false) {
            Ok(Fence::SemiSync(facts)) => FenceBy::SemiSync { facts },
            Ok(_) => FenceBy::Command { command: options.fence.clone().unwrap_or_default() },
            Err(why) => return Ok(Attempt::ask(&why)),
        };
        let candidate = match scene.choose(None) {
            Ok(candidate) => candidate,
            Err(error) => return Ok(Attempt::ask(&error)),
        };
        match own_writes::none_is_lost(&scene, &candidate, self.admin, limit, &options.flags).await {
            Err(error @ Error::Refused { .. }) => return Ok(Attempt::ask(&error)),
            looked => looked?,
        }
        let words = match &fence {
            FenceBy::SemiSync { facts } => facts.clone(),
            _ => "the command of --fence".to_owned(),
        };
        if options.dry_run {
            let text = format!("would promote {candidate} in the place of {primary}; fenced by: {words}");
            return Ok(Attempt::Dry(text));
        }
        let plan = scene.plan(&candidate, fence, options.deadlines, &options.by)?;
        let plan = if gray { plan.of_gray_primary() } else { plan };
        let mut journal = Journal::create(&options.journals, &plan)?;
        tracing::warn!(%candidate, epoch = plan.epoch, journal = %journal.path().display(), "fenced by: {words}");
        committed.store(true, Relaxed);
        self.perform(&plan, &mut journal, State::START).await
    }

    /// Does the steps of a failover from `state` on.
    ///
    /// # Errors
    /// Somebody else is at work on it.
    pub(super) async fn perform(
        self,
        plan: &Plan,
        journal: &mut Journal,
        state: State,
    ) -> Result<Attempt, Error> {
        let (candidate, primary) = (&plan.candidate.name, &plan.primary.name);
        let mut progress = |progress: Progress<'_>| {
            if let Progress::Ended { step, undo, event, took } = progress {
                let (step, ms) = (plan.kind.name(step), took.as_secs_f64() * 1e3);
                tracing::info!(step, undo, ms, ?event, "a step ended");
            }
        };
        let outcome = perform::run(plan, &self.logins(), journal, state, &|| false, &mut progress).await?;
        for remark in &outcome.remarks {
            tracing::error!("{remark}");
        }
        for note in &outcome.notes {
            tracing::warn!("{note}");
        }
        if outcome.state == State::Done
            && let Some(words) = text::events_left(candidate, &plan.statements_of_events())
        {
            tracing::error!("{words}");
        }
        if outcome.state == State::Done
            && let Some(words) = text::events_run(candidate, &plan.statements_that_stop_events())
        {
            tracing::error!("{words}");
        }
        if plan.events_unknown && outcome.state == State::Done {
            tracing::error!("{}", text::events_unknown(candidate));
        }
        if plan.semi_sync_stays_off && outcome.state == State::Done {
            tracing::error!("{}", text::semi_sync_stays_off(candidate));
        }
        Ok(match outcome.state {
            State::Done => Attempt::Done(format!(
                "{candidate} takes writes in the place of {primary} (epoch {}); bring the old one back with {}",
                plan.epoch,
                self.options.flags.after(&format!("headroom failover --rejoin {primary}"))
            )),
            State::Undecided { why } => Attempt::ask(&format!("{why}; {}", journal.path().display())),
            state => {
                let why = format!("{state:?}");
                Attempt::Undone { text: format!("{why}; {}", journal.path().display()), why }
            }
        })
    }
}

/// How an attempt ended.
pub(super) enum Attempt {
    Done(String),
    NotDone(String),
    /// The same of one that was begun; `why` without its journal.
    Undone {
        why: String,
        text: String,
    },
    /// The same, until a person has decided.
    Ask(String),
    /// It would have been done.
    Dry(String),
}

impl Attempt {
    /// A person has to decide, because of `why`.
    pub(super) fn ask(why: &impl Display) -> Self {
        Self::Ask(format!("a person has to decide: {why}"))
    }
}
