//! The functions of `shim.h`: those that are linked in, and those of libraries that are loaded.
//!
//! What calls them does not know which of the two it has. Where a library comes from is left to `demand`.
#![allow(unsafe_code)]

use super::raw::{self, NdpDesign, NdpModel, NdpOpenOptions, NdpPort};
use std::path::Path;

/// Writes the table of functions once: the types of its fields are checked against what bindgen made of the header.
macro_rules! interface {
    ($($field:ident: $symbol:ident($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions of `shim.h`, each as described there.
        #[derive(Debug)]
        pub(super) struct Interface {
            $(pub(super) $field: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        /// Those that are linked in, with the designs of the catalogue.
        pub(super) static LINKED: Interface = Interface { $($field: raw::$symbol,)* };

        impl Interface {
            /// Those of a library, which stays loaded for good.
            ///
            /// # Safety
            /// The library has to be one that `ndp_verilate` linked with the header that this program was built with.
            pub(super) unsafe fn load(path: &Path) -> Result<Self, libloading::Error> {
                // SAFETY: what such a library does when it is loaded is to construct Verilator's tables.
                let library = unsafe { libloading::Library::new(path) }?;
                let interface = Self {
                    // SAFETY: the caller promises the header whose types these are.
                    $($field: *unsafe { library.get(concat!(stringify!($symbol), "\0").as_bytes()) }?,)*
                };
                // Models and the names of their ports may outlive everything that could own it.
                std::mem::forget(library);
                Ok(interface)
            }
        }
    };
}

interface! {
    design: ndp_design(u32) -> *const NdpDesign;
    open: ndp_open(u32, *const NdpOpenOptions) -> *mut NdpModel;
    close: ndp_close(*mut NdpModel);
    port_count: ndp_port_count(*const NdpModel) -> u32;
    ports: ndp_ports(*const NdpModel) -> *const NdpPort;
    eval: ndp_eval(*mut NdpModel);
    tick: ndp_tick(*mut NdpModel, u64);
    set_clock: ndp_set_clock(*mut NdpModel, bool, bool);
    trace_begin: ndp_trace_begin(*mut NdpModel, u32);
    trace_dump: ndp_trace_dump(*mut NdpModel, u64);
    trace_end: ndp_trace_end(*mut NdpModel);
    trace_data: ndp_trace_data(*const NdpModel, *mut usize) -> *const u8;
    trace_clear: ndp_trace_clear(*mut NdpModel);
}
