// Bursts that vectors fill in part: a bench of the packaged core of `tiny`, written from docs/isa.md and docs/rank-port.md. It contains
// its own DRAM and its own expectations, and looks at every element of every burst that an instruction writes.
//
// Each case fills the words of the destination with old values, selects few, no or all elements of vectors into them, and stores and
// appends the result. Elements beyond the vectors' end have to be +0, and neighbouring bursts as they were.
`timescale 1ns/100fs

// A rank without any timing rule: open rows, data after the latencies. What was never written is 0.
module plain_rank #(parameter STORED = 13) (
    input wire clk_i, input wire cs_n_i, input wire act_n_i, input wire bg_i, input wire [1:0] ba_i, input wire [17:0] a_i,
    input wire [127:0] dq_i, output reg [127:0] dq_o
);
    `include "params.vh"
    reg [511:0] bursts [0:(1 << STORED) - 1];
    reg [16:0] row [0:7];
    // What is due in clocks to come, by their low bits.
    reg [1:0] due [0:63];
    reg [STORED - 1:0] place [0:63];
    reg [1:0] part [0:63];
    integer now, i;
    wire [26:0] burst = {row[{ba_i, bg_i}], ba_i, a_i[9:3], bg_i};

    initial begin
        now = 0;
        for (i = 0; i < 64; i = i + 1) due[i] = 0;
        for (i = 0; i < 1 << STORED; i = i + 1) bursts[i] = 0;
    end

    task promise(input [1:0] kind, input integer latency);
        for (i = 0; i < 4; i = i + 1) begin
            due[(now + latency + i) & 63] = kind;
            place[(now + latency + i) & 63] = burst[STORED - 1:0];
            part[(now + latency + i) & 63] = i;
        end
    endtask

    always @(posedge clk_i) begin
        if (cs_n_i === 1'b0) begin
            if (!act_n_i) row[{ba_i, bg_i}] = a_i[16:0];
            else if (a_i[16:14] == 3'b101) promise(1, DRAM_T_CL);
            else if (a_i[16:14] == 3'b100) promise(2, DRAM_T_CWL);
        end
        if (due[now & 63] == 2) bursts[place[now & 63]][128 * part[now & 63] +: 128] = dq_i;
        due[now & 63] = 0;
        now = now + 1;
        dq_o <= due[now & 63] == 1 ? bursts[place[now & 63]][128 * part[now & 63] +: 128] : 128'bx;
    end
endmodule

module bench;
    `include "params.vh"
    localparam ADDRESS = HOST_ADDR_BITS;
    localparam [ADDRESS - 1:0] REGISTERS = 1 << (ADDRESS - 1);
    // Bursts of the DIMM for what is loaded and stored; bursts of each rank for rows; words of the buffer.
    localparam SOURCE = 'h100, OLD = 'h200, STORED = 'h300, APPENDED = 'h400, MATRIX = 'h800;
    localparam SRC = 0, DST = 24, ONE = 48;

    reg clk = 0, dram_clk = 0, rst_n = 0;
    always #0.5 clk = !clk;
    always #0.3125 dram_clk = !dram_clk;

    reg host_valid = 0, host_write;
    reg [ADDRESS - 1:0] host_addr;
    reg [511:0] host_data;
    wire host_ready, response_valid, response_write;
    wire [511:0] response_data;
    wire [1:0] cs_n, act_n, bg;
    wire [3:0] ba;
    wire [35:0] a;
    wire [255:0] to_ranks, from_ranks;

    `NDP_CORE core (
        .clk_i(clk), .rst_ni(rst_n), .dram_clk_i(dram_clk), .dram_rst_ni(rst_n),
        .host_valid_i(host_valid), .host_write_i(host_write), .host_addr_i(host_addr), .host_tag_i(8'd0),
        .host_data_i(host_data), .host_ready_o(host_ready), .response_ready_i(1'b1), .response_valid_o(response_valid),
        .response_write_o(response_write), .response_tag_o(), .response_data_o(response_data),
        .r0_cs_n_o(cs_n[0]), .r0_act_n_o(act_n[0]), .r0_bg_o(bg[0]), .r0_ba_o(ba[1:0]), .r0_a_o(a[17:0]),
        .r0_dq_o(to_ranks[127:0]), .r0_dq_oe_o(), .r0_dq_i(from_ranks[127:0]),
        .r1_cs_n_o(cs_n[1]), .r1_act_n_o(act_n[1]), .r1_bg_o(bg[1]), .r1_ba_o(ba[3:2]), .r1_a_o(a[35:18]),
        .r1_dq_o(to_ranks[255:128]), .r1_dq_oe_o(), .r1_dq_i(from_ranks[255:128]),
        .link_lanes_i({LINK_WORD_BITS{1'b0}}), .link_node_i(4'd0), .link_lanes_o(), .parts_busy_o(), .take_o(), .start_o(),
        .refuse_o(), .select_valid_o(), .select_mask_o(), .busy_o()
    );
    genvar g;
    generate
        for (g = 0; g < 2; g = g + 1) begin : dimm
            plain_rank rank (
                .clk_i(dram_clk), .cs_n_i(cs_n[g]), .act_n_i(act_n[g]), .bg_i(bg[g]), .ba_i(ba[2 * g +: 2]), .a_i(a[18 * g +: 18]),
                .dq_i(to_ranks[128 * g +: 128]), .dq_o(from_ranks[128 * g +: 128])
            );
        end
    endgenerate

    integer errors = 0, compared = 0, cases = 0;

    // Writes go one after the other; a read waits for the responses to all writes, and for its own.
    reg [511:0] response;
    integer asked = 0, answered = 0;
    always @(posedge clk)
        if (rst_n && response_valid) begin
            answered = answered + 1;
            if (!response_write) response = response_data;
        end
    task request(input write, input [ADDRESS - 1:0] address, input [511:0] data);
        begin
            if (!write) while (answered != asked) @(posedge clk);
            asked = asked + 1;
            @(negedge clk);
            host_valid = 1;
            host_write = write;
            host_addr = address;
            host_data = data;
            @(posedge clk);
            while (!host_ready) @(posedge clk);
            @(negedge clk);
            host_valid = 0;
            if (!write) while (answered != asked) @(posedge clk);
        end
    endtask

    // Instructions, four to a burst.
    reg [511:0] queued;
    integer places;
    task flush;
        if (places != 0) begin
            // What an instruction loads has to be in DRAM.
            response = 0;
            while (response[63:32] < 4) request(0, REGISTERS, 0);
            request(1, REGISTERS, queued);
            queued = 0;
            places = 0;
        end
    endtask
    task instruction(input [127:0] word);
        begin
            queued[128 * places +: 128] = word;
            places = places + 1;
            if (places == 4) flush;
        end
    endtask
    // docs/isa.md, Encoding.
    function [127:0] encoded(input [7:0] opcode, input integer batch, input [17:0] cols, input [28:0] address);
        begin
            encoded = 0;
            encoded[7:0] = opcode;
            encoded[12:9] = batch - 1;
            encoded[30:13] = cols;
            encoded[60:32] = address;
        end
    endfunction
    task load(input [9:0] dst, input integer batch, input integer cols, input [28:0] address);
        instruction(encoded(8'h10, batch, cols, address) | {118'd0, dst} << 98);
    endtask
    task store(input [9:0] src, input integer batch, input integer cols, input [28:0] address);
        instruction(encoded(8'h11, batch, cols, address) | {118'd0, src} << 88);
    endtask
    task append(input [9:0] src, input integer batch, input integer cols, input [28:0] address);
        instruction(encoded(8'h13, batch, cols, address) | {118'd0, src} << 88);
    endtask
    task select(input [9:0] src, input [9:0] dst, input integer batch, input integer cols);
        instruction(encoded(8'h26, batch, cols, 0) | {118'd0, src} << 88 | {118'd0, dst} << 98);
    endtask
    // The rows that were selected, as many as `count` at most.
    task dot_selected(input [9:0] src, input [9:0] dst, input integer cols, input [23:0] count, input [28:0] address);
        instruction(
            encoded(8'h21, 1, cols, address) | {104'd0, count} << 64 | {118'd0, src} << 88 | {118'd0, dst} << 98 | 1 << 8 | 1 << 31
        );
    endtask
    reg [31:0] signals;
    task finish_program;
        begin
            instruction(128'h02);
            flush;
            signals = signals + 1;
            response = 0;
            while (response[8 * 32 +: 32] != signals) request(0, REGISTERS, 0);
            if (response[4 * 32 +: 32] != 0) wrong("a malformed instruction", 0, 0);
        end
    endtask

    task wrong(input [8 * 40 - 1:0] what, input integer burst, input integer element);
        begin
            errors = errors + 1;
            if (errors <= 10) $display("FAIL: %0s: burst %h, element %0d", what, burst, element);
        end
    endtask

    // Values: old ones, marks in DRAM, elements of vector b.
    localparam [15:0] STALE = 16'h4A4A, MARK = 16'h5B5B;
    function positive(input integer share, input integer k);
        case (share)
            0: positive = 0;
            1: positive = k == 0;
            2: positive = k % 7 == 3;
            default: positive = 1;
        endcase
    endfunction
    function [15:0] value(input integer share, input integer b, input integer k);
        value = (positive(share, k) ? 16'h3C00 : 16'hBC00) + 37 * b + k;
    endfunction

    integer i, b, k, n, at, beats, row, rank;
    reg [511:0] burst;
    // Old values in all words of the destination, which as many elements as whole stripes have.
    task stale(input integer batch, input integer cols);
        begin
            n = (cols + STRIPE_ELEMS - 1) / STRIPE_ELEMS * STRIPE_ELEMS;
            for (i = 0; i < n / 32 * batch; i = i + 1) request(1, OLD + i, {32{STALE}});
            load(DST, batch, n, OLD);
        end
    endtask

    // Element `i` of the burst that has elements 32 * `beat` and up of vector `b`; those that nobody specifies may be anything.
    task compare(input integer share, input integer cols, input integer selected, input integer beat, input integer address);
        for (i = 0; i < 32; i = i + 1) begin
            at = 32 * beat + i;
            if (at < selected) begin
                // The element that was selected as number `at`.
                n = 0;
                for (k = 0; n < at || !positive(share, k); k = k + 1) n = n + positive(share, k);
                if (burst[16 * i +: 16] !== value(share, b, k)) wrong("a selected value", address, i);
                compared = compared + 1;
            end else if (at >= cols) begin
                if (burst[16 * i +: 16] !== 16'h0000) wrong("not +0 beyond the vector's end", address, i);
                compared = compared + 1;
            end
        end
    endtask

    task marked(input integer address);
        begin
            request(0, address, 0);
            if (response !== {32{MARK}}) wrong("a burst that nobody writes", address, 0);
        end
    endtask

    integer selected;
    task check(input integer batch, input integer cols, input integer share);
        if (errors == 0) begin
            cases = cases + 1;
            beats = (cols + 31) / 32;
            selected = 0;
            for (k = 0; k < cols; k = k + 1) selected = selected + positive(share, k);
            // Positive values lie beyond the end of the source too: they are no elements.
            for (n = 0; n < beats; n = n + 1)
                for (b = 0; b < batch; b = b + 1) begin
                    for (i = 0; i < 32; i = i + 1)
                        burst[16 * i +: 16] = 32 * n + i < cols ? value(share, b, 32 * n + i) : 16'h3C00;
                    request(1, SOURCE + n * batch + b, burst);
                end
            request(1, STORED + beats * batch, {32{MARK}});
            for (i = 0; i < 4 * BEATS_PER_STRIPE; i = i + 1) request(1, 2 * APPENDED + i, {32{MARK}});
            stale(batch, cols);
            load(SRC, batch, cols, SOURCE);
            select(SRC, DST, batch, cols);
            store(DST, batch, cols, STORED);
            if (cols <= STRIPE_ELEMS) append(DST, batch, cols, APPENDED);
            finish_program;
            for (n = 0; n < beats; n = n + 1)
                for (b = 0; b < batch; b = b + 1) begin : stored
                    integer beat;
                    beat = n;
                    request(0, STORED + beat * batch + b, 0);
                    burst = response;
                    compare(share, cols, selected, beat, STORED + beat * batch + b);
                    n = beat;
                end
            marked(STORED + beats * batch);
            if (cols <= STRIPE_ELEMS)
                // Row b lies in rank b mod 2, each row in BEATS_PER_STRIPE bursts of its rank.
                for (b = 0; b < batch; b = b + 1)
                    for (row = 0; row < BEATS_PER_STRIPE; row = row + 1) begin
                        rank = 2 * (APPENDED + BEATS_PER_STRIPE * (b / 2) + row) + b % 2;
                        request(0, rank, 0);
                        burst = response;
                        if (row < beats) compare(share, cols, selected, row, rank);
                        else marked(rank);
                    end
        end
    endtask

    // A product of fewer rows than it has room for, which ends early too: no row was selected before.
    task check_product(input integer cols);
        if (errors == 0) begin
            cases = cases + 1;
            beats = (cols + 31) / 32;
            stale(1, cols);
            request(1, SOURCE, {32{16'h8000}});
            load(ONE, 1, 2, SOURCE);
            select(ONE, SRC, 1, 2);
            dot_selected(ONE, DST, 2, cols, MATRIX);
            store(DST, 1, cols, STORED);
            finish_program;
            request(0, STORED + beats - 1, 0);
            burst = response;
            b = 0;
            compare(0, cols, 0, beats - 1, STORED + beats - 1);
        end
    endtask

    initial begin
        queued = 0;
        places = 0;
        signals = 0;
        repeat (16) @(negedge clk);
        rst_n = 1;
        check(1, STRIPE_ELEMS + 1, 2);
        check(1, 1, 0);
        check_product(STRIPE_ELEMS + 31);
        if (!$test$plusargs("some")) begin
            check(3, 33, 1);
            check(1, STRIPE_ELEMS - 7, 3);
            check(3, STRIPE_ELEMS + 1, 0);
            check(2, 3 * STRIPE_ELEMS + 17, 2);
        end
        $display("%0d cases, %0d elements compared", cases, compared);
        if (errors == 0) $display("PASS");
        else $display("FAIL: %0d elements", errors);
        $finish_and_return(errors == 0 ? 0 : 1);
    end

    initial begin
        #3000000;
        $display("FAIL: a program does not end");
        $finish_and_return(1);
    end
endmodule
