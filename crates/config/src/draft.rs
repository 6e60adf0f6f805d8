//! The configuration while conflicts across sections are looked for: values with their places.

use super::section::Section;
use super::{
    Admin, Config, FleetConfig, Listener, Objective, PasswordFrom, RouterConfig, ServerRule, Webhook,
    ZoneRule, admin, credentials, fleet_section, listener, objective, router, server, webhook, zone,
};
use fleet::Address;
use std::ops::Range;
use toml::Spanned;

pub(super) struct Draft {
    pub(super) fleet: FleetConfig,
    pub(super) password_from: Option<PasswordFrom>,
    pub(super) zones: Vec<Spanned<ZoneRule>>,
    pub(super) members: zone::Members,
    pub(super) servers: Vec<Spanned<ServerRule>>,
    pub(super) maps: Vec<Spanned<(Address, Address)>>,
    pub(super) router: RouterConfig,
    pub(super) max_lag_at: Range<usize>,
    pub(super) listeners: Vec<Spanned<Listener>>,
    pub(super) admin: Option<Spanned<Admin>>,
    pub(super) objectives: Vec<Objective>,
    pub(super) webhook: Option<Webhook>,
}

impl Draft {
    /// Reads every section; what is wrong inside one is noted on the way.
    pub(super) fn read(document: &mut Section<'_>) -> Self {
        let mut fleet = fleet_section::read(document);
        let (credentials, password_from) = credentials::read(document);
        fleet.credentials = credentials;
        let (zones, members) = zone::read(document);
        let servers = server::read(document);
        let maps = fleet_section::maps(document);
        let (router, own_zone, max_lag_at) = router::read(document);
        fleet.own_zone = own_zone;
        Self {
            fleet,
            password_from,
            zones,
            members,
            servers,
            maps,
            router,
            max_lag_at,
            listeners: listener::read(document),
            admin: admin::read(document),
            objectives: objective::read(document),
            webhook: webhook::read(document),
        }
    }

    /// The values without their places.
    pub(super) fn into_config(self) -> Config {
        let fleet = FleetConfig {
            zones: values(self.zones),
            servers: values(self.servers),
            address_map: values(self.maps),
            ..self.fleet
        };
        let admin = self.admin.map(Spanned::into_inner);
        Config {
            fleet,
            router: self.router,
            listeners: values(self.listeners),
            admin: admin.as_ref().map(|admin| admin.address),
            admin_access: admin.map(|admin| admin.access).unwrap_or_default(),
            objectives: self.objectives,
            webhook: self.webhook,
            password_from: self.password_from,
        }
    }
}

fn values<T>(spanned: Vec<Spanned<T>>) -> Vec<T> {
    spanned.into_iter().map(Spanned::into_inner).collect()
}
