//! The shares that a port is to have: the structural checks of changes, and their undoing.
//!
//! Each change is checked against the shares as the changes before it left them, in time proportional to the depth of the tree. So a batch lowers the
//! rates of children before that of their parent, and raises them after it. `remove NAME all` takes time proportional to the removed shares.
//!
//! Changes are kept in an undo log until [`ShareTree::commit`]. [`ShareTree::rollback`] undoes them in reverse order. No copy of the tree is made.

mod flows;
mod rates;

use crate::Call;
use crate::share::{ShareName, ShareSettings, port_rate};
use crate::share_batch::ShareChange;
use crate::share_cycles::ShareCycles;
use rates::check_ceiling;
use std::collections::HashMap;
use std::fmt;
use units::{Nanos, Rate, ShareId};

/// The most shares of a port.
pub const MOST_SHARES: usize = ShareId::MOST as usize;
/// The most levels of shares. The port itself is the first level.
pub const MOST_SHARE_LEVELS: usize = 8;

/// The reason why a change cannot be made, and a correction.
type Refused = (String, String);

/// The source of a share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ShareOrigin {
    /// The keys `shares` and `share_file` of its port.
    Configuration,
    /// The section `[subscribers]`.
    Subscribers,
    /// A command or a request while the router runs.
    Api,
    /// A flow that was reserved while the router runs.
    Flow,
}

/// A share in a tree.
#[derive(Clone, Copy, Debug)]
pub struct ShareNode<'t> {
    /// Its name.
    pub name: &'t ShareName,
    /// The share above it; `None` for the port.
    pub parent: Option<&'t ShareName>,
    /// Its own settings.
    pub settings: &'t ShareSettings,
    /// Its guarantee: its own rate, else the sum of its children's guarantees. Zero if there is none.
    pub guarantee: Rate,
    /// Who added it.
    pub origin: ShareOrigin,
    /// Its lease; `None` if it stays.
    pub lease: Option<Nanos>,
    /// Its level, from 2: the port is level 1.
    pub level: usize,
}

/// The position of a node in [`ShareTree::nodes`]; that of the port, and of no node.
type Place = u32;
const PORT: Place = 0;
const NONE: Place = Place::MAX;

#[derive(Clone, PartialEq, Eq, Debug)]
struct Node {
    name: ShareName,
    settings: ShareSettings,
    origin: ShareOrigin,
    lease: Option<Nanos>,
    parent: Place,
    /// Its first and last child.
    children: (Place, Place),
    /// The child of the same parent before it and the one after it.
    siblings: (Place, Place),
    /// The guarantee that follows from its own settings, in bits a second.
    own: Option<u64>,
    /// The sum of its children's guarantees, in bits a second.
    sum: u64,
    /// How many shares are one level below it, two levels, and so on.
    below: [u32; MOST_SHARE_LEVELS - 1],
}

impl Node {
    fn guarantee(&self) -> u64 {
        self.own.unwrap_or(self.sum)
    }

    /// The levels of shares below it.
    fn height(&self) -> usize {
        self.below.iter().rposition(|count| *count > 0).map_or(0, |level| level + 1)
    }
}

/// A change that was made, with what its undoing needs.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Undo {
    Added(Place),
    /// Boxed, because most changes are additions.
    Changed(Place, Box<(ShareSettings, Option<Nanos>)>),
    Moved {
        node: Place,
        parent: Place,
        siblings: (Place, Place),
    },
    /// The node and all below it keep their places and links until the commit.
    Removed(Place),
}

/// The shares of one port by name, with their parents and settings.
// Large: the checks of each change, and its undoing, need all of the tree.
#[derive(Clone, Debug)]
pub struct ShareTree {
    /// The port, then its shares, in no order. Some places are unused.
    nodes: Vec<Node>,
    unused: Vec<Place>,
    names: HashMap<ShareName, Place>,
    /// The cycles of the port's scheme, if it has some.
    cycles: Option<ShareCycles>,
    /// True if reserved flows get shares although their rates do not fit.
    overbooks: bool,
    log: Vec<Undo>,
}

impl ShareTree {
    /// A tree without shares. `rate` is the port's: the guarantees of its children fit in it. `None` if it is not known.
    pub fn new(rate: Option<Rate>) -> ShareTree {
        let settings = ShareSettings { rate, ..ShareSettings::default() };
        let port = node(ShareName::of_port(), settings, ShareOrigin::Configuration, None);
        let (unused, names, log) = Default::default();
        ShareTree { nodes: vec![port], unused, names, cycles: None, overbooks: false, log }
    }

    /// A tree without shares, at a port with this scheme.
    pub fn of_scheme(scheme: &Call) -> ShareTree {
        let cycles = ShareCycles::of(scheme);
        let rate = port_rate(scheme);
        let tree = ShareTree::new(rate.map(|rate| cycles.as_ref().map_or(rate, |cycles| cycles.reservable(rate))));
        ShareTree { cycles, ..tree }
    }

    /// The guarantee that follows from a share's own settings: for a scheme with cycles that of its quantum.
    fn own_guarantee(&self, settings: &ShareSettings) -> Option<u64> {
        let peak = settings.peak()?;
        Some(self.cycles.as_ref().map_or(peak, |cycles| cycles.quantum_rate(peak)).get())
    }

    /// Prepares for this many more shares.
    pub fn reserve(&mut self, shares: usize) {
        self.nodes.reserve_exact(shares);
        self.names.reserve(shares);
    }

    /// The number of shares, without the port.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// True if there is no share.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The sum of the guarantees of the port's children.
    pub fn guaranteed(&self) -> Rate {
        Rate::bits(self.nodes[0].sum)
    }

    /// Sets the port's rate, unless its shares have higher guarantees. It is not part of the undo log.
    pub fn set_port_rate(&mut self, rate: Option<Rate>) -> Result<(), Refused> {
        self.check_rates(PORT, &ShareSettings { rate, ..ShareSettings::default() }, self.nodes[0].sum)?;
        self.nodes[0].settings.rate = rate;
        Ok(())
    }

    /// The share of this name.
    pub fn get(&self, name: &str) -> Option<ShareNode<'_>> {
        self.names.get(name).map(|place| self.view(*place))
    }

    /// All shares. A parent precedes its children, and the children of a parent are in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = ShareNode<'_>> {
        self.places_below(PORT).skip(1).map(|place| self.view(place))
    }

    /// The share of this name and all below it, each parent before its children. Empty without such a share.
    pub fn subtree(&self, name: &str) -> impl Iterator<Item = ShareNode<'_>> {
        let start = self.names.get(name).copied();
        start.into_iter().flat_map(|start| self.places_below(start)).map(|place| self.view(place))
    }

    /// Makes a change and adds it to the undo log, or refuses it with a reason and a correction and changes nothing. `origin` is that of the change:
    /// new shares have it, and the API may only remove its own.
    pub fn apply(&mut self, change: &ShareChange, origin: ShareOrigin) -> Result<(), Refused> {
        let undo = match change {
            ShareChange::Add { name, parent, settings, lease } => {
                let own = self.own_guarantee(settings);
                self.add(Node { own, ..node(name.clone(), *settings, origin, *lease) }, parent.as_ref())?
            }
            ShareChange::Set { name, settings, no_ceiling, lease } => {
                self.refuse_flow(name, origin)?;
                self.set(name, settings, *no_ceiling, *lease)?
            }
            ShareChange::Move { name, parent } => {
                self.refuse_flow(name, origin)?;
                self.move_to(name, parent.as_ref())?
            }
            ShareChange::Remove { name, all } => self.remove(name, *all, origin)?,
        };
        self.log.push(undo);
        Ok(())
    }

    /// Makes all changes in order, or none: the error has the position of the one that cannot be made. The log keeps them until the commit.
    pub fn apply_all<'c>(
        &mut self,
        changes: impl IntoIterator<Item = &'c ShareChange>,
        origin: ShareOrigin,
    ) -> Result<(), (usize, String, String)> {
        let before = self.log.len();
        for (position, change) in changes.into_iter().enumerate() {
            if let Err((reason, hint)) = self.apply(change, origin) {
                self.undo_to(before);
                return Err((position, reason, hint));
            }
        }
        Ok(())
    }

    /// Accepts all changes since the last commit. They can no longer be undone.
    pub fn commit(&mut self) {
        for undo in std::mem::take(&mut self.log) {
            if let Undo::Removed(place) = undo {
                let removed: Vec<Place> = self.places_below(place).collect();
                self.unused.extend(removed);
            }
        }
    }

    /// Undoes all changes since the last commit.
    pub fn rollback(&mut self) {
        self.undo_to(0);
    }

    fn undo_to(&mut self, length: usize) {
        while self.log.len() > length {
            match self.log.pop() {
                None => break,
                Some(Undo::Added(place)) => {
                    self.detach(place);
                    self.names.remove(&self.nodes[place as usize].name);
                    self.unused.push(place);
                }
                Some(Undo::Changed(place, old)) => self.replace_settings(place, old.0, old.1),
                Some(Undo::Moved { node, parent, siblings }) => {
                    self.detach(node);
                    self.attach(node, parent, siblings);
                }
                Some(Undo::Removed(place)) => {
                    let Node { parent, siblings, .. } = self.nodes[place as usize];
                    self.attach(place, parent, siblings);
                    let restored: Vec<Place> = self.places_below(place).collect();
                    self.names.extend(restored.into_iter().map(|at| (self.nodes[at as usize].name.clone(), at)));
                }
            }
        }
    }

    fn add(&mut self, new: Node, parent: Option<&ShareName>) -> Result<Undo, Refused> {
        if self.names.contains_key(&new.name) {
            let hint = format!("use another name, or change it with 'set {}'", new.name);
            return Err((format!("there is a share '{}' already", new.name.as_str()), hint));
        }
        if self.names.len() == MOST_SHARES {
            let reason = format!("the port has {MOST_SHARES} shares, and cannot have more");
            return Err((reason, "remove others first".to_string()));
        }
        if let Some(cycles) = &self.cycles {
            cycles.check_place(&new.name, parent, self.names.len())?;
        }
        let parent = self.parent(parent)?;
        self.check_settings(&new.name, &new.settings, false)?;
        self.check_no_delay(parent)?;
        self.check_depth(&new, parent)?;
        self.check_cycle(&new.name, &new.settings, 0)?;
        check_ceiling(&new.name, &new.settings, new.guarantee())?;
        if !self.overbooks || new.origin != ShareOrigin::Flow {
            self.check_sums(parent, 0, new.guarantee())?;
        }
        let name = new.name.clone();
        let place = match self.unused.pop() {
            Some(place) => {
                self.nodes[place as usize] = new;
                place
            }
            None => {
                self.nodes.push(new);
                (self.nodes.len() - 1) as Place
            }
        };
        self.attach(place, parent, (self.nodes[parent as usize].children.1, NONE));
        self.names.insert(name, place);
        Ok(Undo::Added(place))
    }

    fn set(
        &mut self,
        name: &ShareName,
        changed: &ShareSettings,
        no_ceiling: bool,
        lease: Option<Option<Nanos>>,
    ) -> Result<Undo, Refused> {
        let place = self.find(name)?;
        let Node { settings: old, lease: old_lease, parent, sum, .. } = self.nodes[place as usize];
        let mut settings = old.updated(*changed);
        if no_ceiling {
            settings.ceiling = None;
        }
        settings.delay = settings.delay.filter(|delay| *delay > Nanos::ZERO);
        self.check_settings(name, &settings, self.nodes[place as usize].children.0 != NONE)?;
        self.check_cycle(name, &settings, self.nodes[place as usize].guarantee())?;
        self.check_rates(place, &settings, sum)?;
        let guarantee = self.own_guarantee(&settings).unwrap_or(sum);
        self.check_sums(parent, self.nodes[place as usize].guarantee(), guarantee)?;
        self.replace_settings(place, settings, lease.unwrap_or(old_lease));
        Ok(Undo::Changed(place, Box::new((old, old_lease))))
    }

    fn move_to(&mut self, name: &ShareName, parent: Option<&ShareName>) -> Result<Undo, Refused> {
        let node = self.find(name)?;
        if let Some(cycles) = &self.cycles {
            cycles.check_place(name, parent, 0)?;
        }
        let to = self.parent(parent)?;
        self.check_no_delay(to)?;
        let Node { parent: from, siblings, .. } = self.nodes[node as usize];
        let undo = Undo::Moved { node, parent: from, siblings };
        if from == to {
            return Ok(undo);
        }
        if self.path_up(to).any(|above| above == node) {
            let reason = match to == node {
                true => format!("the share '{}' cannot be below itself", name.as_str()),
                false => format!("{} is below '{}'", self.label(to), name.as_str()),
            };
            return Err((reason, "move that one first".to_string()));
        }
        self.check_depth(&self.nodes[node as usize], to)?;
        self.detach(node);
        match self.check_sums(to, 0, self.nodes[node as usize].guarantee()) {
            Ok(()) => self.attach(node, to, (self.nodes[to as usize].children.1, NONE)),
            Err(refused) => {
                self.attach(node, from, siblings);
                return Err(refused);
            }
        }
        Ok(undo)
    }

    fn remove(&mut self, name: &ShareName, all: bool, origin: ShareOrigin) -> Result<Undo, Refused> {
        let place = self.find(name)?;
        let children: u32 = self.nodes[place as usize].below.iter().sum();
        if children > 0 && !all {
            let reason = format!("the share '{}' has {children} shares below it", name.as_str());
            return Err((reason, format!("remove them first, or write 'remove {name} all'")));
        }
        let removed: Vec<Place> = self.places_below(place).collect();
        let foreign = removed.iter().map(|at| &self.nodes[*at as usize]).find(|node| node.origin != ShareOrigin::Api);
        if let (ShareOrigin::Api, Some(node)) = (origin, foreign) {
            let (whose, hint) = match node.origin {
                ShareOrigin::Subscribers => ("the files of [subscribers]", "remove it there, and apply them again"),
                ShareOrigin::Flow => ("a reserved flow", "remove that: `switchpath reserve remove NAME`"),
                _ => ("the configuration", "remove it there, and apply the configuration"),
            };
            return Err((format!("the share '{}' belongs to {whose}", node.name.as_str()), hint.to_string()));
        }
        for at in removed {
            self.names.remove(&self.nodes[at as usize].name);
        }
        self.detach(place);
        Ok(Undo::Removed(place))
    }

    fn find(&self, name: &ShareName) -> Result<Place, Refused> {
        self.names.get(name).copied().ok_or_else(|| {
            let reason = format!("there is no share '{}'", name.as_str());
            (reason, format!("add the share {name} before it"))
        })
    }

    fn parent(&self, name: Option<&ShareName>) -> Result<Place, Refused> {
        name.map_or(Ok(PORT), |name| self.find(name))
    }

    fn check_depth(&self, node: &Node, parent: Place) -> Result<(), Refused> {
        let levels = self.path_up(parent).count() + 1 + node.height();
        if levels <= MOST_SHARE_LEVELS {
            return Ok(());
        }
        let reason = format!(
            "with '{}' below {} the tree has {levels} levels, the port included",
            node.name.as_str(),
            self.label(parent)
        );
        Err((reason, format!("use at most {MOST_SHARE_LEVELS}")))
    }

    /// Checks settings of a share, apart from rates.
    fn check_settings(&self, name: &ShareName, settings: &ShareSettings, has_children: bool) -> Result<(), Refused> {
        if let Some(cycles) = &self.cycles {
            cycles.check_settings(name, settings)?;
        }
        if settings.delay.is_none() {
            return Ok(());
        }
        if settings.rate.is_none() {
            let reason = format!("the share '{}' has a delay and no rate", name.as_str());
            return Err((reason, "give it a 'rate' too: a delay is for its burst at its rate".to_string()));
        }
        if has_children {
            let reason = format!("the share '{}' has shares below it, so it cannot have a delay", name.as_str());
            return Err((reason, "give those the delay".to_string()));
        }
        Ok(())
    }

    /// Checks that a share may have others below it.
    fn check_no_delay(&self, parent: Place) -> Result<(), Refused> {
        if self.nodes[parent as usize].settings.delay.is_none() {
            return Ok(());
        }
        let name = &self.nodes[parent as usize].name;
        let reason = format!("the share '{}' has a delay, so no share can be below it", name.as_str());
        Err((reason, format!("write 'set {name} delay none' first")))
    }

    /// Checks that a cycle has room for a share's quantum. `old` is the guarantee that it has already.
    fn check_cycle(&self, name: &ShareName, settings: &ShareSettings, old: u64) -> Result<(), Refused> {
        let (Some(cycles), Some(rate)) = (&self.cycles, self.nodes[PORT as usize].settings.rate) else { return Ok(()) };
        let others = self.nodes[PORT as usize].sum - old;
        cycles.check_room(name, settings, Rate::bits(rate.get().saturating_sub(others)))
    }

    /// Puts a node below a parent, between two of its children.
    fn attach(&mut self, node: Place, parent: Place, (before, after): (Place, Place)) {
        self.nodes[node as usize].parent = parent;
        self.nodes[node as usize].siblings = (before, after);
        match before {
            NONE => self.nodes[parent as usize].children.0 = node,
            before => self.nodes[before as usize].siblings.1 = node,
        }
        match after {
            NONE => self.nodes[parent as usize].children.1 = node,
            after => self.nodes[after as usize].siblings.0 = node,
        }
        self.count(node, |count, more| *count += more);
        self.propagate(parent, 0, self.nodes[node as usize].guarantee());
    }

    /// Takes a node off its parent. The node keeps its links, with which it can be attached again.
    fn detach(&mut self, node: Place) {
        let Node { parent, siblings: (before, after), .. } = self.nodes[node as usize];
        match before {
            NONE => self.nodes[parent as usize].children.0 = after,
            before => self.nodes[before as usize].siblings.1 = after,
        }
        match after {
            NONE => self.nodes[parent as usize].children.1 = before,
            after => self.nodes[after as usize].siblings.0 = before,
        }
        self.count(node, |count, less| *count -= less);
        self.propagate(parent, self.nodes[node as usize].guarantee(), 0);
    }

    /// Adds a node and those below it to the counts of all above it, or subtracts them.
    fn count(&mut self, node: Place, change: impl Fn(&mut u32, u32)) {
        let below = self.nodes[node as usize].below;
        let mut above = self.nodes[node as usize].parent;
        for distance in 0..MOST_SHARE_LEVELS - 1 {
            if above == NONE {
                break;
            }
            let counts = &mut self.nodes[above as usize].below;
            change(&mut counts[distance], 1);
            counts[distance + 1..].iter_mut().zip(below).for_each(|(count, more)| change(count, more));
            above = self.nodes[above as usize].parent;
        }
    }

    fn replace_settings(&mut self, place: Place, settings: ShareSettings, lease: Option<Nanos>) {
        let own = self.own_guarantee(&settings);
        let node = &mut self.nodes[place as usize];
        let old = node.guarantee();
        (node.settings, node.own, node.lease) = (settings, own, lease);
        let (parent, new) = (node.parent, node.guarantee());
        self.propagate(parent, old, new);
    }

    /// Changes the sums from a node upward, when a child's guarantee changed from `old` to `new`.
    fn propagate(&mut self, from: Place, mut old: u64, mut new: u64) {
        let mut place = from;
        while place != NONE && old != new {
            let node = &mut self.nodes[place as usize];
            let before = node.guarantee();
            node.sum = node.sum - old + new;
            (old, new) = (before, node.guarantee());
            place = node.parent;
        }
    }

    /// A node and all above it, up to the port.
    fn path_up(&self, from: Place) -> impl Iterator<Item = Place> {
        std::iter::successors(Some(from), |at| Some(self.nodes[*at as usize].parent).filter(|above| *above != NONE))
    }

    /// A node and all below it, each parent before its children.
    fn places_below(&self, top: Place) -> impl Iterator<Item = Place> {
        std::iter::successors(Some(top), move |at| {
            let first = self.nodes[*at as usize].children.0;
            if first != NONE {
                return Some(first);
            }
            // The next sibling of the nearest node above that has one.
            let up = self.path_up(*at).take_while(|above| *above != top);
            up.map(|above| self.nodes[above as usize].siblings.1).find(|next| *next != NONE)
        })
    }

    fn view(&self, place: Place) -> ShareNode<'_> {
        let node = &self.nodes[place as usize];
        ShareNode {
            name: &node.name,
            parent: (node.parent != PORT).then(|| &self.nodes[node.parent as usize].name),
            settings: &node.settings,
            guarantee: Rate::bits(node.guarantee()),
            origin: node.origin,
            lease: node.lease,
            level: self.path_up(place).count(),
        }
    }

    /// A node in messages.
    fn label(&self, place: Place) -> impl fmt::Display {
        if place == PORT { "the port".to_string() } else { format!("'{}'", self.nodes[place as usize].name.as_str()) }
    }
}

fn node(name: ShareName, settings: ShareSettings, origin: ShareOrigin, lease: Option<Nanos>) -> Node {
    let (children, siblings) = ((NONE, NONE), (NONE, NONE));
    let below = [0; MOST_SHARE_LEVELS - 1];
    Node { name, settings, origin, lease, parent: NONE, children, siblings, own: None, sum: 0, below }
}
