//! What a dashboard is made of, and Grafana's JSON of it (the classic model, schema version 39, which
//! Grafana 11 and 12 load and migrate).
//!
//! A query is PromQL in which `%` inside a selector stands for the dashboard's own choice of job and
//! instance: `headroom_server_up{%}`. Panels flow from left to right in a grid of 24 columns; a row begins a
//! new line. What a panel means stands in its description, in words, with the page of the guide that says
//! more.

mod endpoints;
mod fleet;
mod host;
mod router;

use serde_json::{Value, json};

/// A dashboard of Grafana.
#[derive(Clone, Debug)]
pub struct Dashboard {
    /// Of the file, from the root of the repository.
    pub path: &'static str,
    /// By which Grafana knows it: links lead here.
    pub uid: &'static str,
    pub title: &'static str,
    pub description: &'static str,
    /// The metric whose jobs and instances are offered.
    pub chosen_by: &'static str,
    /// Further choices.
    pub choices: &'static [Choice],
    pub rows: Vec<Row>,
}

/// A choice at the top: values of a label.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    pub name: &'static str,
    pub label: &'static str,
    pub metric: &'static str,
}

#[derive(Clone, Debug)]
pub struct Row {
    pub title: &'static str,
    pub panels: Vec<Panel>,
}

/// How values are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One figure, now.
    Figure,
    /// Lines over time.
    Lines,
    /// Areas on top of each other.
    Areas,
    /// A bar a series, coloured by state.
    States,
    /// One line a series, columns from labels and values, now.
    Table,
    /// Markdown.
    Text,
}

/// Grafana's names of units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Count,
    Share,
    Seconds,
    Bytes,
    BytesPerSecond,
    PerSecond,
    Date,
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Self::Count => "short",
            Self::Share => "percentunit",
            Self::Seconds => "s",
            Self::Bytes => "bytes",
            Self::BytesPerSecond => "Bps",
            Self::PerSecond => "ops",
            Self::Date => "dateTimeAsIso",
        }
    }
}

/// From which value on it is bad.
#[derive(Clone, Copy, Debug)]
pub enum Limits {
    None,
    /// Amber from the first, red from the second.
    Above(f64, f64),
    /// Red below the first, green from it on.
    Below(f64),
    /// 1 is good, 0 is bad.
    Good,
    /// 1 is bad, 0 is good.
    Bad,
    /// A count: 0 is good, any more is bad.
    Zero,
}

#[derive(Clone, Debug)]
pub struct Panel {
    title: &'static str,
    /// What it means and what to do.
    description: &'static str,
    guide: Option<&'static str>,
    kind: Kind,
    unit: Unit,
    limits: Limits,
    width: u8,
    height: u8,
    queries: Vec<Query>,
    /// Of a table: column -> heading, in order; what is not named is hidden.
    columns: Vec<(&'static str, &'static str)>,
    /// Of a table: the column by which several queries are joined.
    joined_by: Option<&'static str>,
}

#[derive(Clone, Debug)]
struct Query {
    expr: &'static str,
    legend: &'static str,
}

impl Panel {
    fn new(kind: Kind, title: &'static str, unit: Unit, width: u8, height: u8) -> Self {
        Self {
            title,
            description: "",
            guide: None,
            kind,
            unit,
            limits: Limits::None,
            width,
            height,
            queries: Vec::new(),
            columns: Vec::new(),
            joined_by: None,
        }
    }

    /// A figure of three columns.
    pub fn figure(title: &'static str, unit: Unit, expr: &'static str) -> Self {
        Self::new(Kind::Figure, title, unit, 3, 4).query(expr, "")
    }

    /// Lines, a third of the width.
    pub fn lines(title: &'static str, unit: Unit, expr: &'static str, legend: &'static str) -> Self {
        Self::new(Kind::Lines, title, unit, 8, 8).query(expr, legend)
    }

    pub fn areas(title: &'static str, unit: Unit, expr: &'static str, legend: &'static str) -> Self {
        Self::new(Kind::Areas, title, unit, 8, 8).query(expr, legend)
    }

    /// States over time, half of the width.
    pub fn states(title: &'static str, expr: &'static str, legend: &'static str) -> Self {
        Self::new(Kind::States, title, Unit::Count, 12, 8).query(expr, legend)
    }

    pub fn table(title: &'static str, unit: Unit, columns: &[(&'static str, &'static str)]) -> Self {
        Self { columns: columns.to_vec(), ..Self::new(Kind::Table, title, unit, 12, 8) }
    }

    /// Markdown over the whole width.
    pub fn text(markdown: &'static str, height: u8) -> Self {
        Self { description: markdown, ..Self::new(Kind::Text, "", Unit::Count, 24, height) }
    }

    pub fn query(mut self, expr: &'static str, legend: &'static str) -> Self {
        self.queries.push(Query { expr, legend });
        self
    }

    pub fn joined_by(mut self, column: &'static str) -> Self {
        self.joined_by = Some(column);
        self
    }

    pub fn says(mut self, description: &'static str) -> Self {
        self.description = description;
        self
    }

    pub fn guide(mut self, page: &'static str) -> Self {
        self.guide = Some(page);
        self
    }

    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    pub fn wide(mut self, width: u8) -> Self {
        self.width = width;
        self
    }

    pub fn high(mut self, height: u8) -> Self {
        self.height = height;
        self
    }

    /// The page of the guide that it leads to.
    pub fn page(&self) -> Option<&'static str> {
        self.guide
    }
}

/// All dashboards.
pub fn all() -> Vec<Dashboard> {
    vec![fleet::dashboard(), router::dashboard(), endpoints::dashboard(), host::dashboard()]
}

const CHOSEN: &str = "job=~\"$job\",instance=~\"$instance\"";
const DATASOURCE: &str = "${datasource}";

impl Dashboard {
    /// Every query, with the choice of job and instance in its place.
    pub fn exprs(&self) -> Vec<String> {
        let panels = self.rows.iter().flat_map(|row| &row.panels);
        panels.flat_map(|panel| panel.queries.iter().map(|query| query.expr.replace('%', CHOSEN))).collect()
    }

    /// Pages of the guide that it leads to.
    pub fn pages(&self) -> Vec<&'static str> {
        self.rows.iter().flat_map(|row| &row.panels).filter_map(Panel::page).collect()
    }

    /// The file.
    pub fn text(&self) -> String {
        format!("{:#}\n", self.json())
    }

    fn json(&self) -> Value {
        json!({
            "uid": self.uid,
            "title": self.title,
            "description": self.description,
            "tags": ["headroom"],
            "schemaVersion": 39,
            "version": 1,
            "editable": true,
            "graphTooltip": 1,
            "refresh": "30s",
            "time": {"from": "now-3h", "to": "now"},
            "timepicker": {},
            "timezone": "browser",
            "weekStart": "",
            "fiscalYearStartMonth": 0,
            "liveNow": false,
            "links": [{
                "asDropdown": false, "icon": "dashboard", "includeVars": true, "keepTime": true,
                "tags": ["headroom"], "targetBlank": false, "title": "Headroom", "tooltip": "", "type": "dashboards", "url": "",
            }],
            "annotations": {"list": [{
                "builtIn": 1, "datasource": {"type": "grafana", "uid": "-- Grafana --"}, "enable": true, "hide": true,
                "iconColor": "rgba(0, 211, 255, 1)", "name": "Annotations & Alerts", "type": "dashboard",
            }, {
                "datasource": datasource(), "enable": true, "iconColor": "red", "name": "Alerts that wake somebody",
                "expr": "ALERTS{alertname=~\"Headroom.*\",alertstate=\"firing\",severity=\"page\"}", "step": "60s",
                "titleFormat": "{{alertname}}", "textFormat": "{{server}} {{instance}}", "tagKeys": "severity",
            }]},
            "templating": {"list": self.variables()},
            "panels": self.panels(),
        })
    }

    fn variables(&self) -> Vec<Value> {
        let mut all = vec![json!({
            "name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus",
            "current": {}, "hide": 0, "includeAll": false, "multi": false, "options": [], "refresh": 1, "regex": "",
            "skipUrlSync": false,
        })];
        let chosen = self.chosen_by;
        all.push(choice("job", "Job", &format!("label_values({chosen}, job)")));
        all.push(choice(
            "instance",
            "Instance",
            &format!("label_values({chosen}{{job=~\"$job\"}}, instance)"),
        ));
        for more in self.choices {
            let query = format!("label_values({}{{{CHOSEN}}}, {})", more.metric, more.name);
            all.push(choice(more.name, more.label, &query));
        }
        all.push(json!({
            "name": "guide", "label": "Address of the guide", "type": "textbox", "query": "/guide",
            "current": {"selected": true, "text": "/guide", "value": "/guide"}, "hide": 0, "options": [], "skipUrlSync": false,
        }));
        all
    }

    fn panels(&self) -> Vec<Value> {
        let mut grid = Grid::default();
        let mut all = Vec::new();
        for row in &self.rows {
            let at = grid.row();
            all.push(json!({
                "id": all.len() + 1, "type": "row", "title": row.title, "collapsed": false, "gridPos": at, "panels": [],
            }));
            for panel in &row.panels {
                let at = grid.place(panel.width, panel.height);
                all.push(panel.json(all.len() + 1, &at));
            }
        }
        all
    }
}

/// The place of the next panel.
#[derive(Default)]
struct Grid {
    x: u8,
    y: u32,
    /// Of the highest in the line.
    height: u8,
}

impl Grid {
    const COLUMNS: u8 = 24;

    fn row(&mut self) -> Value {
        self.y += u32::from(self.height);
        let at = json!({"x": 0, "y": self.y, "w": Self::COLUMNS, "h": 1});
        (self.x, self.height) = (0, 0);
        self.y += 1;
        at
    }

    fn place(&mut self, width: u8, height: u8) -> Value {
        if self.x + width > Self::COLUMNS {
            self.y += u32::from(self.height);
            (self.x, self.height) = (0, 0);
        }
        let at = json!({"x": self.x, "y": self.y, "w": width, "h": height});
        self.x += width;
        self.height = self.height.max(height);
        at
    }
}

fn datasource() -> Value {
    json!({"type": "prometheus", "uid": DATASOURCE})
}

fn choice(name: &str, label: &str, query: &str) -> Value {
    json!({
        "name": name, "label": label, "type": "query", "datasource": datasource(), "definition": query,
        "query": {"query": query, "refId": "values"}, "includeAll": true, "allValue": ".*", "multi": true,
        "current": {"selected": true, "text": ["All"], "value": ["$__all"]}, "hide": 0, "options": [], "refresh": 2,
        "regex": "", "skipUrlSync": false, "sort": 1,
    })
}

impl Panel {
    fn json(&self, id: usize, at: &Value) -> Value {
        if self.kind == Kind::Text {
            let options = json!({"mode": "markdown", "content": self.description, "code": {"language": "plaintext", "showLineNumbers": false, "showMiniMap": false}});
            return json!({"id": id, "type": "text", "title": self.title, "gridPos": at, "transparent": true, "options": options});
        }
        let mut panel = json!({
            "id": id, "type": self.type_name(), "title": self.title, "description": self.described(), "gridPos": at,
            "datasource": datasource(), "targets": self.targets(), "fieldConfig": self.fields(), "options": self.options(),
            "links": self.links(),
        });
        if self.kind == Kind::Table {
            panel["transformations"] = self.transformations();
        }
        panel
    }

    fn type_name(&self) -> &'static str {
        match self.kind {
            Kind::Figure => "stat",
            Kind::Lines | Kind::Areas => "timeseries",
            Kind::States => "state-timeline",
            Kind::Table => "table",
            Kind::Text => "text",
        }
    }

    fn described(&self) -> String {
        match self.guide {
            Some(page) => format!("{} (docs/guide/{page})", self.description),
            None => self.description.to_owned(),
        }
    }

    fn links(&self) -> Vec<Value> {
        // The site of the guide has .html in the place of .md.
        let link = |page: &str| json!({"title": "What to do", "url": format!("${{guide}}/{}", page.replace(".md", ".html")), "targetBlank": true});
        self.guide.map(link).into_iter().collect()
    }

    fn targets(&self) -> Vec<Value> {
        let now = matches!(self.kind, Kind::Figure | Kind::Table);
        let target = |(number, query): (u8, &Query)| {
            json!({
                "refId": char::from(b'A' + number).to_string(), "datasource": datasource(), "editorMode": "code",
                "expr": query.expr.replace('%', CHOSEN), "instant": now, "range": !now,
                "format": if self.kind == Kind::Table { "table" } else { "time_series" },
                "legendFormat": if query.legend.is_empty() { "__auto" } else { query.legend },
            })
        };
        (0..).zip(&self.queries).map(target).collect()
    }

    fn fields(&self) -> Value {
        let mut defaults = json!({
            "unit": self.unit.name(), "mappings": self.mappings(), "thresholds": self.thresholds(),
            "color": {"mode": if self.kind == Kind::Lines || self.kind == Kind::Areas { "palette-classic" } else { "thresholds" }},
        });
        match self.kind {
            Kind::Lines | Kind::Areas => {
                defaults["min"] = json!(0);
                defaults["custom"] = json!({
                    "drawStyle": "line", "lineWidth": 1, "showPoints": "never", "spanNulls": false,
                    "fillOpacity": if self.kind == Kind::Areas { 60 } else { 5 },
                    "stacking": {"group": "A", "mode": if self.kind == Kind::Areas { "normal" } else { "none" }},
                    "thresholdsStyle": {"mode": if matches!(self.limits, Limits::Above(..)) { "dashed" } else { "off" }},
                });
            }
            Kind::States => defaults["custom"] = json!({"fillOpacity": 70, "lineWidth": 0}),
            Kind::Table => {
                defaults["custom"] =
                    json!({"align": "auto", "cellOptions": {"type": "auto"}, "filterable": true});
            }
            Kind::Figure | Kind::Text => {}
        }
        json!({"defaults": defaults, "overrides": []})
    }

    fn thresholds(&self) -> Value {
        let step = |color: &str, from: Option<f64>| json!({"color": color, "value": from});
        let steps = match self.limits {
            Limits::None => vec![step("blue", None)],
            Limits::Above(amber, red) => {
                vec![step("green", None), step("orange", Some(amber)), step("red", Some(red))]
            }
            Limits::Below(red) => vec![step("red", None), step("green", Some(red))],
            Limits::Good => vec![step("red", None), step("green", Some(1.0))],
            Limits::Bad | Limits::Zero => vec![step("green", None), step("red", Some(1.0))],
        };
        json!({"mode": "absolute", "steps": steps})
    }

    /// 0 and 1 as words where they are states.
    fn mappings(&self) -> Vec<Value> {
        let words = match self.limits {
            Limits::Good => ("no", "red", "yes", "green"),
            Limits::Bad => ("no", "green", "yes", "red"),
            _ => return Vec::new(),
        };
        let (zero, color, one, other) = words;
        vec![json!({"type": "value", "options": {
            "0": {"text": zero, "color": color, "index": 0}, "1": {"text": one, "color": other, "index": 1},
        }})]
    }

    fn options(&self) -> Value {
        match self.kind {
            Kind::Figure => json!({
                "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": false}, "colorMode": "background",
                "graphMode": "none", "justifyMode": "auto", "orientation": "auto", "textMode": "auto", "wideLayout": true,
            }),
            Kind::Lines | Kind::Areas => json!({
                "legend": {"calcs": ["lastNotNull", "max"], "displayMode": "table", "placement": "bottom", "showLegend": true},
                "tooltip": {"mode": "multi", "sort": "desc"},
            }),
            Kind::States => json!({
                "alignValue": "left", "mergeValues": true, "rowHeight": 0.9, "showValue": "auto",
                "legend": {"displayMode": "list", "placement": "bottom", "showLegend": true},
                "tooltip": {"mode": "single", "sort": "none"},
            }),
            Kind::Table => {
                json!({"showHeader": true, "cellHeight": "sm", "footer": {"show": false, "reducer": ["sum"], "countRows": false, "fields": ""}})
            }
            Kind::Text => json!({}),
        }
    }

    fn transformations(&self) -> Value {
        let mut all = Vec::new();
        match self.joined_by {
            Some(column) => {
                all.push(json!({"id": "joinByField", "options": {"byField": column, "mode": "outer"}}));
            }
            None => all.push(json!({"id": "merge", "options": {}})),
        }
        let names: serde_json::Map<String, Value> =
            self.columns.iter().map(|(column, heading)| ((*column).to_owned(), json!(heading))).collect();
        let order: serde_json::Map<String, Value> = (0..)
            .zip(&self.columns)
            .map(|(at, (column, _)): (u8, _)| ((*column).to_owned(), json!(at)))
            .collect();
        let shown: Vec<Value> = self.columns.iter().map(|(column, _)| json!(column)).collect();
        all.push(json!({"id": "filterFieldsByName", "options": {"include": {"names": shown}}}));
        all.push(json!({"id": "organize", "options": {"excludeByName": {}, "includeByName": {}, "indexByName": order, "renameByName": names}}));
        Value::Array(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panels_flow_and_a_row_begins_below_the_highest() {
        let mut grid = Grid::default();
        assert_eq!(grid.row(), json!({"x": 0, "y": 0, "w": 24, "h": 1}));
        assert_eq!(grid.place(12, 8), json!({"x": 0, "y": 1, "w": 12, "h": 8}));
        assert_eq!(grid.place(8, 4), json!({"x": 12, "y": 1, "w": 8, "h": 4}));
        assert_eq!(grid.place(8, 4), json!({"x": 0, "y": 9, "w": 8, "h": 4}));
        assert_eq!(grid.row(), json!({"x": 0, "y": 13, "w": 24, "h": 1}));
    }

    #[test]
    fn a_count_is_a_number_and_a_state_a_word() {
        for dashboard in all() {
            for panel in dashboard.rows.iter().flat_map(|row| &row.panels) {
                let counts = |query: &Query| {
                    ["count(", "sum(", "sum by"].iter().any(|begins| query.expr.starts_with(begins))
                };
                let words = !panel.mappings().is_empty();
                assert!(!words || !panel.queries.iter().any(counts), "{}: {}", dashboard.title, panel.title);
            }
        }
        let mapped = |limits| Panel::figure("Pages", Unit::Count, "x").limits(limits).mappings().len();
        assert_eq!([Limits::Good, Limits::Bad, Limits::Zero, Limits::None].map(mapped), [1, 1, 0, 0]);
    }

    #[test]
    fn every_panel_says_what_it_means() {
        for dashboard in all() {
            for panel in dashboard.rows.iter().flat_map(|row| &row.panels) {
                assert!(!panel.description.is_empty(), "{}: {}", dashboard.title, panel.title);
            }
        }
    }
}
