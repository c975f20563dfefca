/* C interface of the library of one model.
 *
 * Bound with bindgen by build.rs and implemented in shim.cpp. Each instance is independent: two models may be used
 * by two threads at once, one model by one thread at a time. Strings and tables are owned by the library and
 * outlive every model; what belongs to a model dies with it. Checking names, widths and directions is left to
 * the Rust side.
 */
#ifndef NDP_SHIM_H
#define NDP_SHIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct NdpModel NdpModel;

typedef struct NdpOpenOptions {
    bool waves;       /* signals will be dumped; the library must be that of the variant with waves */
    bool random;      /* registers start with random contents instead of zero */
    int32_t seed;     /* of those contents, greater than 0 */
    uint32_t mutant;  /* which mutation of the Verilog is at work, from 1; 0 for none */
} NdpOpenOptions;

/* One port and the place where the model keeps its value: up to 64 bits as one unsigned integer of `bytes`
 * bytes, beyond that as an array of 32-bit words, least significant first. Bits above `width` must be 0. */
typedef struct NdpPort {
    const char* name;
    uint32_t width;
    bool output;
    uint32_t bytes;
    void* data;
} NdpPort;

/* What a module took of a model's time, all of its instances together. */
typedef struct NdpShare {
    const char* module;
    double seconds;
    double operations;
} NdpShare;

/* A new model with all inputs 0, evaluated once; NULL if memory is exhausted. No exception leaves these functions for want of memory: those
 * that say nothing of it allocate none. */
NdpModel* ndp_open(const NdpOpenOptions* options);
void ndp_close(NdpModel* model);

uint32_t ndp_port_count(const NdpModel* model);
const NdpPort* ndp_ports(const NdpModel* model);

/* Lets the inputs settle; the clock does not move. */
void ndp_eval(NdpModel* model);
/* `cycles` times: rising edge, falling edge. Without a clock the same as ndp_eval. */
void ndp_tick(NdpModel* model, uint64_t cycles);
/* Sets a clock, `clk_i` or with `dram` `dram_clk_i`, and lets it settle; nothing happens to a model without it. */
void ndp_set_clock(NdpModel* model, bool dram, bool level);

/* The number of properties of the design that did not hold, each edge counted; it changes in the calls above. */
const uint64_t* ndp_failures(const NdpModel* model);
/* Name of the first of them and what it says, empty if there is none. */
const char* ndp_failure(const NdpModel* model);

/* Starts a VCD in memory with `depth` levels of modules (0: all). The model must have been opened with waves. False if memory is exhausted:
 * then only ndp_close may follow. */
bool ndp_trace_begin(NdpModel* model, uint32_t depth);
/* Appends the present values, or what changed since the last call, at `time_ps`. */
void ndp_trace_dump(NdpModel* model, uint64_t time_ps);
/* Ends the VCD: what Verilator still buffers is moved to memory. */
void ndp_trace_end(NdpModel* model);
/* The VCD text that was produced since the last ndp_trace_clear; valid until the next call for this model. NULL if a
 * part of it was lost because memory is exhausted. */
const uint8_t* ndp_trace_data(const NdpModel* model, size_t* length);
void ndp_trace_clear(NdpModel* model);

/* Where the time went since ndp_open, of a native model that was built for that, else nothing; valid until the next call.
 * Nothing either if memory is exhausted. */
const NdpShare* ndp_profile(NdpModel* model, uint32_t* count);

#ifdef __cplusplus
}
#endif

#endif
