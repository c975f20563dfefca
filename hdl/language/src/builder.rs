//! Collects the contents of one module.
//!
//! [`ModuleBuilder::finish`] hands everything to `check` and `lower`, which keeps block descriptions free of `?` on
//! every line.

use crate::bits::{Node, Owner};
use crate::body::{Declaration, Inner, InstanceBody, Kind, MemoryBody, PropertyBody, PropertyKind, RegBody};
use crate::check::Report;
use crate::domain::implicit_names;
use crate::module::{Direction, MemoryInfo, Module, Port};
use crate::{Bits, Crossing, Domain, HdlError, Inputs, check, lower, mux};
use std::cell::RefCell;
use std::ops::Deref;
use std::panic::Location;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Describes one module; see [the language](crate) for the conventions.
#[derive(Debug)]
pub struct ModuleBuilder {
    inner: Contents,
}

/// Contents of a module; [`ModuleBuilder::finish`] takes them and leaves nothing.
type Contents = &'static RefCell<Inner>;

impl ModuleBuilder {
    /// Starts a module. `name` has the parameters that distinguish it in a design; `doc` states its purpose in a
    /// sentence. The line of the call becomes [`Module::source`].
    #[track_caller]
    pub fn new(name: impl Into<String>, doc: impl Into<String>) -> Self {
        // Only compared, never printed: the numbers differ between runs if threads build modules.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let owner = Owner { module: name.into(), serial: NEXT.fetch_add(1, Ordering::Relaxed) };
        let caller = Location::caller();
        let source = format!("{}:{}", caller.file(), caller.line());
        let inner = Inner { owner, source, doc: doc.into(), ..Inner::default() };
        Self { inner: Box::leak(Box::new(RefCell::new(inner))) }
    }

    #[track_caller]
    fn declare(&self, name: impl Into<String>, width: u32, kind: Kind) -> (usize, Bits) {
        let mut inner = self.inner.borrow_mut();
        let (id, name, about) = (inner.declarations.len(), name.into(), std::mem::take(&mut inner.about));
        inner.declarations.push(Declaration { name, width, kind, about, place: Location::caller() });
        (id, inner.signal(id))
    }

    /// Runs `make` with `place` as the place of its declarations.
    pub(crate) fn placed<T>(&self, place: &'static Location<'static>, make: impl FnOnce() -> T) -> T {
        let before = self.inner.borrow().declarations.len();
        let made = make();
        self.inner.borrow_mut().declarations[before..].iter_mut().for_each(|new| new.place = place);
        made
    }

    /// A comment for the next signal, memory or instance; it also goes into the Verilog. In a
    /// [`block`](macro@crate::block) it is a doc comment before the `let`.
    pub fn about(&self, comment: &str) -> &Self {
        self.inner.borrow_mut().about = comment.trim().to_owned();
        self
    }

    /// An input port; `doc` becomes its line in the port table.
    #[track_caller]
    pub fn input(&self, name: impl Into<String>, width: u32, doc: impl Into<String>) -> Bits {
        self.declare(name, width, Kind::Input { doc: doc.into() }).1
    }

    /// An output port driven by `value`. Returns the value, for properties of the port.
    #[track_caller]
    pub fn output(&self, name: impl Into<String>, value: impl Into<Bits>, doc: impl Into<String>) -> Bits {
        let value = value.into();
        let (id, _) = self.declare(name, value.width(), Kind::Output { doc: doc.into() });
        self.inner.borrow_mut().drives.push((id, value));
        value
    }

    /// A named wire driven by `value`.
    #[track_caller]
    pub fn wire(&self, name: impl Into<String>, value: impl Into<Bits>) -> Bits {
        let value = value.into();
        let (id, bits) = self.declare(name, value.width(), Kind::Wire);
        self.inner.borrow_mut().drives.push((id, value));
        bits
    }

    /// A wire that is driven later with [`Wire::drive`].
    #[track_caller]
    pub fn forward(&self, name: impl Into<String>, width: u32) -> Wire {
        let (id, bits) = self.declare(name, width, Kind::Wire);
        Wire { bits, id, inner: self.inner }
    }

    /// A register of `width` bits on `clk_i`; without [`Reg::reset`] its first value is undefined.
    #[track_caller]
    pub fn reg(&self, name: impl Into<String>, width: u32) -> Reg {
        self.register(name, width, Kind::Reg)
    }

    /// `value` as it was in the last cycle with `enable`; undefined before.
    #[track_caller]
    pub fn hold(&self, name: impl Into<String>, value: impl Into<Bits>, enable: impl Into<Bits>) -> Bits {
        let value = value.into();
        self.reg(name, value.width()).enable(enable).next(value).q()
    }

    /// `value` a cycle later; undefined in the first cycle.
    #[track_caller]
    pub fn delay(&self, name: impl Into<String>, value: impl Into<Bits>) -> Bits {
        let value = value.into();
        self.reg(name, value.width()).next(value).q()
    }

    /// `value` a cycle later; 0 in reset.
    #[track_caller]
    pub fn flag(&self, name: impl Into<String>, value: impl Into<Bits>) -> Bits {
        let value = value.into();
        self.reg(name, value.width()).reset(0).next(value).q()
    }

    /// Counts the cycles with `step` since reset, modulo 2^`width`.
    #[track_caller]
    pub fn counter(&self, name: impl Into<String>, width: u32, step: impl Into<Bits>) -> Bits {
        let reg = self.reg(name, width).reset(0).enable(step);
        reg.next(reg.plus_one());
        reg.q()
    }

    /// A register that only properties and other ghosts read. It is emitted with the properties, not with the hardware.
    #[track_caller]
    pub fn ghost(&self, name: impl Into<String>, width: u32) -> Reg {
        self.register(name, width, Kind::Ghost)
    }

    /// A value that only properties and ghosts read: in a proof a solver chooses it in each cycle, in simulation it is
    /// 0.
    #[track_caller]
    pub fn any_sequence(&self, name: impl Into<String>, width: u32) -> Bits {
        self.declare(name, width, Kind::Free { constant: false }).1
    }

    /// Like [`Self::any_sequence`], with one value for the whole run.
    #[track_caller]
    pub fn any_constant(&self, name: impl Into<String>, width: u32) -> Bits {
        self.declare(name, width, Kind::Free { constant: true }).1
    }

    #[track_caller]
    fn register(&self, name: impl Into<String>, width: u32, kind: Kind) -> Reg {
        let (id, bits) = self.declare(name, width, kind);
        let mut inner = self.inner.borrow_mut();
        inner.regs.push(RegBody {
            id,
            next: Vec::new(),
            enable: Vec::new(),
            reset: None,
            other_resets: Vec::new(),
        });
        Reg { bits, index: inner.regs.len() - 1, inner: self.inner }
    }

    /// The module keeps `holds`, a bit, before every rising edge of `clk_i` with `rst_ni` = 1; `why` is the property in
    /// words. Simulation models report the first edge at which it is 0; with `FORMAL` defined the Verilog has an
    /// `assert` statement.
    pub fn assert(&self, name: impl Into<String>, holds: impl Into<Bits>, why: impl Into<String>) {
        self.property(PropertyKind::Assert, name, holds, why);
    }

    /// The drivers of the inputs keep `holds`. Simulation models check it like an assertion; with `FORMAL` defined the
    /// Verilog has an `assume` statement.
    pub fn assume(&self, name: impl Into<String>, holds: impl Into<Bits>, why: impl Into<String>) {
        self.property(PropertyKind::Assume, name, holds, why);
    }

    /// `holds` becomes 1 in some run: a `cover` statement with `FORMAL` defined; ignored by simulation models.
    pub fn cover(&self, name: impl Into<String>, holds: impl Into<Bits>, why: impl Into<String>) {
        self.property(PropertyKind::Cover, name, holds, why);
    }

    fn property(
        &self,
        kind: PropertyKind,
        name: impl Into<String>,
        holds: impl Into<Bits>,
        why: impl Into<String>,
    ) {
        let property = PropertyBody { name: name.into(), kind, holds: holds.into(), why: why.into() };
        self.inner.borrow_mut().properties.push(property);
    }

    /// A valid/ready input: an offer stays, with the same payload, until it is taken. `name` is the stem of the
    /// property's name.
    #[track_caller]
    pub fn assume_held(
        &self,
        name: &str,
        valid: impl Into<Bits>,
        ready: impl Into<Bits>,
        payload: impl IntoIterator<Item: Into<Bits>>,
    ) {
        let holds = self.held(name, valid, ready, payload);
        self.assume(format!("{name}_held"), holds, "what is offered stays until it is taken");
    }

    /// A valid/ready output: the module's offers stay likewise.
    #[track_caller]
    pub fn assert_held(
        &self,
        name: &str,
        valid: impl Into<Bits>,
        ready: impl Into<Bits>,
        payload: impl IntoIterator<Item: Into<Bits>>,
    ) {
        let holds = self.held(name, valid, ready, payload);
        self.assert(format!("{name}_held"), holds, "what is offered stays until it is taken");
    }

    #[track_caller]
    fn held(
        &self,
        name: &str,
        valid: impl Into<Bits>,
        ready: impl Into<Bits>,
        payload: impl IntoIterator<Item: Into<Bits>>,
    ) -> Bits {
        let valid = valid.into();
        let waits = self.ghost(format!("{name}_waits_q"), 1).reset(0);
        waits.next(valid & !ready.into());
        let same = payload.into_iter().map(Into::into).enumerate().map(|(number, part): (_, Bits)| {
            let before = self.ghost(format!("{name}_payload{number}_q"), part.width());
            before.next(part);
            before.eq(part)
        });
        let same = same.fold(valid, |all, same| all & same);
        !waits | same
    }

    /// A memory of `depth` words of `width` bits.
    pub fn memory(&self, name: impl Into<String>, width: u32, depth: u32) -> Memory {
        let mut inner = self.inner.borrow_mut();
        let about = std::mem::take(&mut inner.about);
        inner.memories.push(MemoryBody {
            name: name.into(),
            about,
            width,
            depth,
            writes: Vec::new(),
            read_addrs: Vec::new(),
        });
        Memory { index: inner.memories.len() - 1, inner: self.inner }
    }

    /// Starts an instance of `module`; clock and reset are connected implicitly.
    pub fn instance(&self, name: impl Into<String>, module: &Rc<Module>) -> InstanceBuilder {
        let mut inner = self.inner.borrow_mut();
        let about = std::mem::take(&mut inner.about);
        inner.instances.push(InstanceBody {
            name: name.into(),
            about,
            module: module.clone(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            own_domain: Vec::new(),
            passed: Vec::new(),
            crossings: Vec::new(),
        });
        InstanceBuilder { inner: self.inner, index: inner.instances.len() - 1 }
    }

    /// A further clock domain, `<name>_clk_i` with `<name>_rst_ni`, for instances; see [`Domain`].
    pub fn clock_domain(&self, name: impl Into<String>) -> Domain {
        let mut inner = self.inner.borrow_mut();
        inner.domains.push(name.into());
        Domain { owner: inner.owner.clone(), index: Some(inner.domains.len() - 1) }
    }

    /// The domain of the module's own `clk_i`, to be passed on to a domain of an instance.
    pub fn own_domain(&self) -> Domain {
        Domain { owner: self.inner.borrow().owner.clone(), index: None }
    }

    /// States that (part of) a signal is deliberately not read, and why.
    pub fn unused(&self, value: impl Into<Bits>, reason: impl Into<String>) {
        let value = value.into();
        self.inner.borrow_mut().unused.push((value, reason.into()));
    }

    /// `value` in `width` bits; the bits that are cut off are deliberately not read.
    #[track_caller]
    pub fn fit(&self, value: impl Into<Bits>, width: u32, reason: &str) -> Bits {
        let value = value.into();
        if value.width() > width {
            self.unused(value.high(value.width() - width), reason);
        }
        value.fit(width)
    }

    /// Lets all instances of the module share their code in simulation: Verilator neither inlines the module nor
    /// replaces its inputs by their drivers, which differ between instances ([`crate::Pragmas`]).
    pub fn share_code(&self) {
        self.inner.borrow_mut().shares_code = true;
    }

    /// Marks the module as a synchroniser: its registers may catch a signal of another clock. In Verilog they have the
    /// attributes `ASYNC_REG` and `keep`.
    pub fn synchroniser(&self) {
        self.inner.borrow_mut().synchroniser = true;
    }

    /// Lets instances of the module in one parent be simulated as one array ([`crate::Netlist`]).
    pub fn replicated(&self) {
        self.inner.borrow_mut().replicated = true;
    }

    /// Marks the module as standing for an SRAM or register-file macro.
    pub fn memory_macro(&self, depth: u32, width: u32) {
        self.inner.borrow_mut().memory_macro = Some(MemoryInfo { depth, width });
    }

    /// Checks the module and lowers it to Verilog.
    ///
    /// # Errors
    /// The first broken rule of [`HdlError`].
    pub fn finish(self) -> Result<Rc<Module>, HdlError> {
        let inner = std::mem::take(&mut *self.inner.borrow_mut());
        let report = check::check(&inner)?;
        Ok(assembled(inner, report))
    }
}

pub(crate) fn assembled(inner: Inner, report: Report) -> Rc<Module> {
    let mut ports = Vec::new();
    if report.clocked {
        ports.push(implicit_port("clk_i", "clock, rising edge"));
    }
    if report.resettable {
        ports.push(implicit_port("rst_ni", "synchronous reset, active low"));
    }
    for domain in &inner.domains {
        let [clock, reset] = implicit_names(domain);
        ports.push(implicit_port(&clock, &format!("clock of the domain `{domain}`, rising edge")));
        if report.domain_resets.contains(&reset) {
            ports.push(implicit_port(&reset, "its synchronous reset, active low"));
        }
    }
    for declaration in &inner.declarations {
        let (direction, doc) = match &declaration.kind {
            Kind::Input { doc } => (Direction::Input, doc),
            Kind::Output { doc } => (Direction::Output, doc),
            _ => continue,
        };
        ports.push(Port {
            name: declaration.name.clone(),
            direction,
            width: declaration.width,
            doc: doc.clone(),
        });
    }
    let text = lower::lower(&inner, &ports);
    let verilog = lower::without_pragmas(&text);
    Rc::new(Module {
        name: inner.name().to_owned(),
        doc: inner.doc.clone(),
        ports,
        verilog,
        verilated: inner.shares_code.then_some(text),
        source: inner.source.clone(),
        instances: inner.instances.iter().map(|i| (i.name.clone(), i.module.clone())).collect(),
        memory: inner.memory_macro,
        comb_paths: report.comb_paths,
        domains: inner.domains.clone(),
        port_domains: report.port_domains,
        crossings: report.crossings,
        body: inner,
    })
}

fn implicit_port(name: &str, doc: &str) -> Port {
    Port { name: name.into(), direction: Direction::Input, width: 1, doc: doc.into() }
}

/// A register: reads as its present value.
#[derive(Clone, Copy, Debug)]
pub struct Reg {
    bits: Bits,
    index: usize,
    inner: Contents,
}

impl Reg {
    /// The present value.
    pub fn q(&self) -> Bits {
        self.bits
    }

    /// The value after the next clock edge.
    pub fn next(self, value: impl Into<Bits>) -> Self {
        let value = value.into();
        self.inner.borrow_mut().regs[self.index].next.push(value);
        self
    }

    /// A flag is 1 after a cycle with `set`, else 0 after one with `clear`.
    #[track_caller]
    pub fn set_clear(self, set: impl Into<Bits>, clear: impl Into<Bits>) -> Self {
        self.next(set.into() | (self & !clear.into()))
    }

    /// Counts up in a cycle with `up` and down in one with `down`; both together change nothing.
    #[track_caller]
    pub fn up_down(self, up: impl Into<Bits>, down: impl Into<Bits>) -> Self {
        let up = up.into();
        self.next(mux(up ^ down.into(), mux(up, self.plus_one(), self.minus_one()), self))
    }

    /// Counts the cycles with `step`, from 0 after a cycle with `clear`.
    #[track_caller]
    pub fn count(self, step: impl Into<Bits>, clear: impl Into<Bits>) -> Self {
        self.next(mux(step, self.plus_one(), self).gated(!clear.into()))
    }

    /// Holds the value while `enable` is 0.
    pub fn enable(self, enable: impl Into<Bits>) -> Self {
        let enable = enable.into();
        self.inner.borrow_mut().regs[self.index].enable.push(enable);
        self
    }

    /// Value while `rst_ni` is 0.
    pub fn reset(self, value: u128) -> Self {
        self.inner.borrow_mut().regs[self.index].reset = Some(value);
        self
    }
}

impl Deref for Reg {
    type Target = Bits;
    fn deref(&self) -> &Bits {
        &self.bits
    }
}

/// A wire whose driver comes later.
#[derive(Clone, Copy, Debug)]
pub struct Wire {
    bits: Bits,
    id: usize,
    inner: Contents,
}

impl Wire {
    /// The value.
    pub fn q(&self) -> Bits {
        self.bits
    }

    /// Drives the wire.
    pub fn drive(&self, value: impl Into<Bits>) {
        let value = value.into();
        self.inner.borrow_mut().drives.push((self.id, value));
    }
}

impl Deref for Wire {
    type Target = Bits;
    fn deref(&self) -> &Bits {
        &self.bits
    }
}

/// Types that read as the value of a signal.
macro_rules! reads_as_bits {
    ($($kind:ty),+) => {
        $(impl From<$kind> for Bits {
            fn from(signal: $kind) -> Self {
                signal.bits
            }
        })+
    };
}
reads_as_bits!(Reg, &Reg, Wire, &Wire);

/// A memory: reads are combinational (register them for a synchronous read), writes on the clock edge.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    index: usize,
    inner: Contents,
}

impl Memory {
    /// The word at `addr`.
    #[track_caller]
    pub fn read(&self, addr: impl Into<Bits>) -> Bits {
        let addr = addr.into();
        let inner = &mut *self.inner.borrow_mut();
        let memory = &mut inner.memories[self.index];
        memory.read_addrs.push(addr);
        let (name, owner) = (memory.name.clone(), inner.owner.clone());
        Bits::new(memory.width, Node::MemoryRead { memory: name, owner, addr })
    }

    /// Writes `data` at `addr` on the clock edge when `enable` is set. An `enable` of `n` bits, where `n` divides the word,
    /// writes `n` equal parts, each by its own bit, the lowest part by bit 0.
    pub fn write(&self, enable: impl Into<Bits>, addr: impl Into<Bits>, data: impl Into<Bits>) {
        let write = (enable.into(), addr.into(), data.into());
        self.inner.borrow_mut().memories[self.index].writes.push(write);
    }
}

/// Connects one instance.
#[derive(Clone, Copy, Debug)]
pub struct InstanceBuilder {
    inner: Contents,
    index: usize,
}

impl InstanceBuilder {
    /// Connects all input ports of an instance whose outputs may have been read before.
    pub fn connect(self, inputs: impl Inputs) {
        inputs.connect(self);
    }

    /// Connects an input port.
    #[track_caller]
    pub fn input(self, port: impl Into<String>, value: impl Into<Bits>) -> Self {
        let (port, value) = (port.into(), value.into());
        match value.node() {
            Node::Later(inputs) => inputs.borrow_mut().push((self, port)),
            _ => self.inner.borrow_mut().instances[self.index].inputs.push((port, value)),
        }
        self
    }

    /// Connects an input port to a signal of another clock domain; `reason` says why that is safe.
    pub fn crossing(self, port: &str, value: impl Into<Bits>, kind: Crossing, reason: &str) -> Self {
        self.crosses(port, kind, reason);
        self.input(port, value)
    }

    /// Permits a signal of another clock domain at an input port; `reason` says why that is safe.
    pub fn crosses(self, port: &str, kind: Crossing, reason: &str) {
        let crossing = (port.to_owned(), kind, reason.to_owned());
        self.inner.borrow_mut().instances[self.index].crossings.push(crossing);
    }

    /// Puts the instance into a domain: its `clk_i` and `rst_ni` are the domain's.
    pub fn in_domain(self, domain: &Domain) -> Self {
        self.inner.borrow_mut().instances[self.index].own_domain.push(domain.clone());
        self
    }

    /// Passes a domain on to the domain `name` of the instance.
    pub fn pass_domain(self, name: &str, domain: &Domain) -> Self {
        let passed = (name.to_owned(), domain.clone());
        self.inner.borrow_mut().instances[self.index].passed.push(passed);
        self
    }

    /// The value of an output port, as a wire named `<instance>_<port>`.
    #[track_caller]
    pub fn output(&self, port: &str) -> Bits {
        let (name, width) = {
            let inner = self.inner.borrow();
            let body = &inner.instances[self.index];
            let stem = port.strip_suffix("_o").unwrap_or(port);
            (format!("{}_{stem}", body.name), body.module.port(port).map_or(1, |p| p.width))
        };
        self.connect_output(port, name, width)
    }

    /// The wire of an output port, made at the first read.
    #[track_caller]
    pub(crate) fn read(&self, port: &str) -> Bits {
        let known = {
            let inner = self.inner.borrow();
            let outputs = &inner.instances[self.index].outputs;
            outputs.iter().find(|(name, _)| name == port).map(|(_, id)| inner.signal(*id))
        };
        known.unwrap_or_else(|| self.output(port))
    }

    /// Makes ports of the module from the instance's ports of a direction whose names `chosen` accepts.
    #[track_caller]
    pub fn expose(self, direction: Direction, chosen: impl Fn(&str) -> bool) -> Self {
        let m = ModuleBuilder { inner: self.inner };
        let module = self.inner.borrow().instances[self.index].module.clone();
        for Port { name, width, doc, .. } in module.ports().iter().filter(|port| port.direction == direction)
        {
            match direction {
                _ if module.is_clock_or_reset(name) || !chosen(name) => {}
                Direction::Input => _ = self.input(name, m.input(name, *width, doc)),
                Direction::Output => _ = m.output(name, self.output(name), doc),
            }
        }
        self
    }

    pub(crate) fn has_output(&self, port: &str) -> bool {
        self.inner.borrow().instances[self.index].module.port(port).is_some()
    }

    /// Leaves an output port unread, for a stated reason.
    #[track_caller]
    pub fn ignore(self, port: &str, reason: &str) -> Self {
        let bits = self.output(port);
        ModuleBuilder { inner: self.inner }.unused(bits, reason);
        self
    }

    #[track_caller]
    fn connect_output(&self, port: &str, name: String, width: u32) -> Bits {
        let (id, bits) = ModuleBuilder { inner: self.inner }.declare(name, width, Kind::InstanceOutput);
        self.inner.borrow_mut().instances[self.index].outputs.push((port.to_owned(), id));
        bits
    }
}
