//! Parameters of the DFI port of a rank: where the PHY's data lie, and how long a device takes to power up.

use crate::DramConfig;
use crate::keys::part;
use crate::limits::in_range;
use crate::speed::check_cas_latency;
use ndp_files::Result;

part! {
    "dfi.", raw:
    /// Validated parameters of the port. Times in clocks of the DRAM; names beginning with `t_` are those of the DFI specification.
    pub struct DfiConfig(RawDfi) {
        /// Clocks from write data at the port to the same data on the bus, less the PHY's delay of commands.
        pub write_lead: u32 = 2, in_range(0, 4);
        /// Clocks from `dfi_wrdata_en` to its data.
        pub t_phy_wrdata: u32 = 1, in_range(0, 3);
        /// Clocks by which `dfi_rddata_en` comes before `CL` clocks from the RD.
        pub read_lead: u32 = 4, in_range(0, 8);
        /// Most clocks by which read data come after `CL` clocks from the RD.
        pub read_lag: u32 = 3, in_range(0, 12);
    }
    private {
        /// Microseconds that RESET_n is low at power up.
        reset_us: u32 = 200, in_range(1, 10_000);
        /// Microseconds from there to CKE.
        cke_us: u32 = 500, in_range(1, 10_000);
    }
}

impl DfiConfig {
    /// Clocks by which the port delays commands, so that write data lead them: a register, and both times of a write.
    pub fn command_delay(&self) -> u32 {
        1 + self.0.t_phy_wrdata + self.0.write_lead
    }

    /// Clocks between the device's CAS latency and the `t_cl` of the controller: late commands, late data, a register.
    pub fn read_delay(&self) -> u32 {
        self.command_delay() + self.0.read_lag + 1
    }

    /// Checks the CAS latency of a device at the port as for one at the controller's pins, unless `jedec = false`. The
    /// error names the `t_cl` that suffices.
    pub fn check(&self, dram: &DramConfig) -> Result<()> {
        let what = "CAS latency behind a DFI port (dram.t_cl less its read delay)";
        check_cas_latency(dram, what, self.cas_latency(dram), self.read_delay())
    }

    /// CAS latency of the device; `t_cl` is the latency that the controller sees.
    pub fn cas_latency(&self, dram: &DramConfig) -> u32 {
        dram.t_cl().saturating_sub(self.read_delay())
    }

    /// WR to `dfi_wrdata_en`: t_phy_wrlat.
    pub fn t_phy_wrlat(&self, dram: &DramConfig) -> u32 {
        dram.t_cwl() - self.0.write_lead - self.0.t_phy_wrdata
    }

    /// RD to `dfi_rddata_en`.
    pub fn t_rddata_en(&self, dram: &DramConfig) -> u32 {
        self.cas_latency(dram).saturating_sub(self.0.read_lead)
    }

    /// Most clocks from `dfi_rddata_en` to its data.
    pub fn t_phy_rdlat(&self) -> u32 {
        self.0.read_lead + self.0.read_lag
    }

    /// Clocks of a low DRAM reset at power up.
    pub fn reset_clocks(&self, dram: &DramConfig) -> u32 {
        clocks(dram, self.0.reset_us)
    }

    /// Clocks from the end of the reset to CKE.
    pub fn cke_clocks(&self, dram: &DramConfig) -> u32 {
        clocks(dram, self.0.cke_us)
    }
}

/// Clocks of `us` microseconds, rounded up.
fn clocks(dram: &DramConfig, us: u32) -> u32 {
    (u64::from(us) * 1_000_000).div_ceil(dram.clock_ps()) as u32
}
