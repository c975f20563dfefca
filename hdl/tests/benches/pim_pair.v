// A self-checking bench of a packaged `pim_pair`: two pseudo channels of HBM2 on shared command buses. All of it is in docs/hbm-presets.md
// (shared command buses) and docs/hbm-pim.md (words, times, codes).
//
// First a list of commands whose answers are known. Then each pseudo channel has a host that writes, reads and compares, and repeats a word until it
// is carried out; neither knows of the other one. In each clock an answer is 55 exactly where the page says that a bus is taken.
`timescale 1ns/1ps

module bench;
    `include "params.vh"

    // Clocks of the hosts.
    localparam CLOCKS = `CLOCKS;
    // Row and column opcodes.
    localparam ACT = 1, PRE = 2, PREA = 3, REF = 4, PACT = 6, PACTA = 7;
    localparam RD = 1, WR = 2, GBW = 4, MAC = 5, RES = 6;
    // Codes of answers.
    localparam DONE = 0, TWO_ROWS = 2, CLOSED = 3, REF_OPEN = 4, NO_PACTA = 14, T_RCD = 34, T_RFC = 46, ROW_BUS = 47, TAKEN = 55;
    localparam FIRST_DISTANCE = 32, LAST_DISTANCE = 54;

    reg clk = 0, rst_n = 0;
    always #0.5 clk = !clk;

    reg [31:0] row [0:1], column [0:1];
    reg [1:0] writes = 0;
    reg [127:0] written [0:1];
    wire [6:0] row_status [0:1], column_status [0:1];
    wire [1:0] driven, late, missing, unexpected;
    wire [127:0] data [0:1];

    `PIM_PAIR pair (
        .clk_i(clk), .rst_ni(rst_n),
        .row0_i(row[0]), .column0_i(column[0]), .data_valid0_i(writes[0]), .data0_i(written[0]),
        .row_status0_o(row_status[0]), .column_status0_o(column_status[0]), .data_valid0_o(driven[0]), .data0_o(data[0]),
        .refresh_late0_o(late[0]), .write_missing0_o(missing[0]), .write_unexpected0_o(unexpected[0]),
        .row1_i(row[1]), .column1_i(column[1]), .data_valid1_i(writes[1]), .data1_i(written[1]),
        .row_status1_o(row_status[1]), .column_status1_o(column_status[1]), .data_valid1_o(driven[1]), .data1_o(data[1]),
        .refresh_late1_o(late[1]), .write_missing1_o(missing[1]), .write_unexpected1_o(unexpected[1])
    );

    integer errors = 0, now = 0;
    task fail(input [8 * 40 - 1:0] what, input integer of, input integer found, input integer expected);
        begin
            errors = errors + 1;
            if (errors <= 10) $display("FAIL: %0s of pseudo channel %0d: %0d, expected %0d, in clock %0d", what, of, found, expected, now);
        end
    endtask

    // Words. The banks are joined, so the partition is 0.
    function [31:0] row_word(input [3:0] op, input [3:0] bank, input [14:0] r);
        row_word = {8'd0, r, bank[3:2], bank[1:0], 1'b0, op};
    endfunction
    function [31:0] column_word(input [3:0] op, input [3:0] bank, input [4:0] c, input flag, input [4:0] slot);
        column_word = {12'd0, slot, flag, c, bank[3:2], bank[1:0], 1'b0, op};
    endfunction

    // What is on the data buses in the clocks to come: data to write, and data that have to be read.
    reg [128:0] to_write [0:127], to_read [0:127];
    integer i, p;
    initial for (i = 0; i < 128; i = i + 1) {to_write[i], to_read[i]} = 0;

    task schedule_write(input integer of, input [255:0] value);
        begin
            to_write[64 * of + (now + TIMING_T_CWL) % 64] = {1'b1, value[127:0]};
            to_write[64 * of + (now + TIMING_T_CWL + 1) % 64] = {1'b1, value[255:128]};
        end
    endtask
    task schedule_read(input integer of, input [255:0] value);
        begin
            to_read[64 * of + (now + TIMING_T_CL) % 64] = {1'b1, value[127:0]};
            to_read[64 * of + (now + TIMING_T_CL + 1) % 64] = {1'b1, value[255:128]};
        end
    endtask

    // Who activated in the last clock, and so has the row bus for a second one.
    reg [1:0] activated = 0, activates;
    reg row_taken, column_taken;
    integer taken_rows [0:1], taken_columns [0:1], refused = 0;

    // Sets the words of a clock; what comes back is there before its end.
    task begin_clock(input [31:0] row0, input [31:0] column0, input [31:0] row1, input [31:0] column1);
        begin
            @(negedge clk);
            {row[0], column[0], row[1], column[1]} = {row0, column0, row1, column1};
            for (p = 0; p < 2; p = p + 1) {writes[p], written[p]} = to_write[64 * p + now % 64];
            #0.3;
            for (p = 0; p < 2; p = p + 1) begin
                // Of two words the first one's is taken; nothing of the other one is carried out.
                row_taken = row[p] != 0 && (activated[1 - p] || p == 1 && row[0] != 0 && !activated[1]);
                column_taken = column[p] != 0 && p == 1 && column[0] != 0;
                if (row_status[p] === 7'bx || (row_status[p] == TAKEN) !== row_taken) fail("row status", p, row_status[p], row_taken ? TAKEN : -1);
                if (column_status[p] === 7'bx || (column_status[p] == TAKEN) !== column_taken)
                    fail("column status", p, column_status[p], column_taken ? TAKEN : -1);
                taken_rows[p] = taken_rows[p] + row_taken;
                taken_columns[p] = taken_columns[p] + column_taken;
                refused = refused + (row_status[p] != 0) + (column_status[p] != 0);
                activates[p] = row_status[p] == 0 && (row[p][3:0] == ACT || row[p][3:0] == PACT || row[p][3:0] == PACTA);
                if (driven[p] !== to_read[64 * p + now % 64][128]) fail("driven", p, driven[p], to_read[64 * p + now % 64][128]);
                else if (driven[p] && data[p] !== to_read[64 * p + now % 64][127:0]) begin
                    fail("data", p, data[p][31:0], to_read[64 * p + now % 64][31:0]);
                end
                if ({late[p], missing[p], unexpected[p]} !== 3'b000) fail("reports", p, {late[p], missing[p], unexpected[p]}, 0);
            end
            activated = activates;
        end
    endtask

    task end_clock;
        begin
            for (p = 0; p < 2; p = p + 1) {to_write[64 * p + now % 64], to_read[64 * p + now % 64]} = 0;
            now = now + 1;
        end
    endtask

    task idle(input integer clocks);
        repeat (clocks) begin
            begin_clock(0, 0, 0, 0);
            end_clock;
        end
    endtask

    // A clock with words and the answers to them: row and column of 0, row and column of 1.
    task answered(
        input [31:0] row0, input [6:0] row0_status, input [31:0] column0, input [6:0] column0_status,
        input [31:0] row1, input [6:0] row1_status, input [31:0] column1, input [6:0] column1_status
    );
        begin
            begin_clock(row0, column0, row1, column1);
            if (row_status[0] !== row0_status) fail("row answer", 0, row_status[0], row0_status);
            if (column_status[0] !== column0_status) fail("column answer", 0, column_status[0], column0_status);
            if (row_status[1] !== row1_status) fail("row answer", 1, row_status[1], row1_status);
            if (column_status[1] !== column1_status) fail("column answer", 1, column_status[1], column1_status);
        end
    endtask

    // A whole number below 2048 as FP16.
    function [15:0] half(input integer value);
        integer e;
        begin
            half = 0;
            for (e = 0; e < 11; e = e + 1) if (value >> e != 0) half = {1'b0, 5'd15 + e[4:0], 10'd0} | ((value << (10 - e)) & 16'h3ff);
        end
    endfunction

    // Contents: what was written, and whether; of pseudo channel, bank, one of two rows, column.
    reg [256:0] cells [0:2047];
    initial for (i = 0; i < 2048; i = i + 1) cells[i] = 0;
    function [10:0] cell_of(input integer of, input [3:0] bank, input high, input [4:0] c);
        cell_of = {of[0], bank, high, c};
    endfunction

    reg [255:0] value;
    integer bank;
    // Rows of the products: bank `b` of pseudo channel `q` gets `b + 1` in all lanes of a column.
    task products;
        begin
            for (bank = 0; bank < 16; bank = bank + 1) begin
                answered(row_word(ACT, bank, 9), DONE, 0, DONE, 0, DONE, 0, DONE);
                end_clock;
                idle(1);
                answered(0, DONE, 0, DONE, row_word(ACT, bank, 9), DONE, 0, DONE);
                end_clock;
                idle(TIMING_T_RCD);
                value = {16{half(bank + 1)}};
                answered(0, DONE, column_word(WR, bank, 3, 0, 0), DONE, 0, DONE, 0, DONE);
                schedule_write(0, value);
                end_clock;
                answered(0, DONE, 0, DONE, 0, DONE, column_word(WR, bank, 3, 0, 0), DONE);
                schedule_write(1, value);
                end_clock;
                idle(TIMING_T_CWL + 2 + TIMING_T_WR);
            end
            answered(row_word(PREA, 0, 0), DONE, 0, DONE, row_word(PREA, 0, 0), TAKEN, 0, DONE);
            end_clock;
            // What was refused has left all rows open.
            answered(0, DONE, 0, DONE, row_word(ACT, 2, 9), TWO_ROWS, 0, DONE);
            end_clock;
            answered(0, DONE, 0, DONE, row_word(PREA, 0, 0), DONE, 0, DONE);
            end_clock;
            idle(TIMING_T_RP);
            // One vector each: 1 in lane 0, and 2 in lanes 0 and 1.
            answered(0, DONE, column_word(GBW, 0, 0, 0, 5), DONE, 0, DONE, column_word(GBW, 0, 0, 0, 5), TAKEN);
            schedule_write(0, half(1));
            end_clock;
            answered(0, DONE, 0, DONE, 0, DONE, column_word(GBW, 0, 0, 0, 5), DONE);
            schedule_write(1, {half(2), half(2)});
            end_clock;
            answered(row_word(PACTA, 0, 9), NO_PACTA, 0, DONE, 0, DONE, 0, DONE);
            end_clock;
            // One that is refused has the bus for its own clock only.
            for (bank = 0; bank < 16; bank = bank + 4) begin
                answered(row_word(PACT, bank, 9), DONE, 0, DONE, row_word(PACT, bank, 9), TAKEN, 0, DONE);
                end_clock;
                answered(0, DONE, 0, DONE, row_word(PACT, bank, 9), TAKEN, 0, DONE);
                end_clock;
                answered(0, DONE, 0, DONE, row_word(PACT, bank, 9), DONE, 0, DONE);
                end_clock;
                idle(TIMING_T_FAW - 2);
            end
            idle(TIMING_T_RCD);
            answered(0, DONE, column_word(MAC, 0, 3, 1, 5), DONE, 0, DONE, column_word(MAC, 0, 3, 1, 5), TAKEN);
            end_clock;
            answered(0, DONE, 0, DONE, 0, DONE, column_word(MAC, 0, 3, 1, 5), DONE);
            end_clock;
            idle(TIMING_T_MAC);
            for (bank = 0; bank < 16; bank = bank + 1) value[16 * bank +: 16] = half(bank + 1);
            answered(0, DONE, column_word(RES, 0, 0, 0, 0), DONE, 0, DONE, column_word(RES, 0, 0, 0, 0), TAKEN);
            schedule_read(0, value);
            end_clock;
            for (bank = 0; bank < 16; bank = bank + 1) value[16 * bank +: 16] = half(4 * (bank + 1));
            answered(0, DONE, 0, DONE, 0, DONE, column_word(RES, 0, 0, 0, 0), DONE);
            schedule_read(1, value);
            end_clock;
            idle(TIMING_T_CL + 2);
        end
    endtask

    task buses;
        begin
            // Two row words, then the second clock of an activation, then a free bus.
            answered(row_word(ACT, 0, 5), DONE, 0, DONE, row_word(ACT, 0, 6), TAKEN, 0, DONE);
            end_clock;
            answered(0, DONE, column_word(RD, 0, 0, 0, 0), T_RCD, row_word(ACT, 0, 6), TAKEN, 0, DONE);
            end_clock;
            answered(0, DONE, 0, DONE, row_word(ACT, 1, 6), DONE, 0, DONE);
            end_clock;
            // The other one's second clock; the column bus is free in it. Its own row words have the bus, and the rule about it.
            answered(row_word(PRE, 7, 0), TAKEN, column_word(RD, 0, 0, 0, 0), T_RCD, row_word(PRE, 7, 0), ROW_BUS, 0, DONE);
            end_clock;
            // An activation that is refused has the bus for one clock.
            answered(row_word(ACT, 0, 7), TWO_ROWS, 0, DONE, row_word(PRE, 7, 0), TAKEN, 0, DONE);
            end_clock;
            answered(0, DONE, 0, DONE, row_word(PRE, 7, 0), DONE, 0, DONE);
            end_clock;
            idle(TIMING_T_RCD);
            // Two column words. What is refused for another rule has the bus, too; bank 0 of the second one was never opened.
            answered(0, DONE, column_word(WR, 0, 4, 0, 0), DONE, 0, DONE, column_word(WR, 1, 4, 0, 0), TAKEN);
            schedule_write(0, {8{32'h01234567}});
            end_clock;
            answered(0, DONE, column_word(RD, 3, 4, 0, 0), CLOSED, 0, DONE, column_word(WR, 1, 4, 0, 0), TAKEN);
            end_clock;
            answered(0, DONE, 0, DONE, 0, DONE, column_word(WR, 1, 4, 0, 0), DONE);
            schedule_write(1, {8{32'h89abcdef}});
            end_clock;
            answered(0, DONE, 0, DONE, 0, DONE, column_word(RD, 0, 4, 0, 0), CLOSED);
            end_clock;
            idle(TIMING_T_CWL + 2 + TIMING_T_WTR_L);
            // Both data buses at once: the second one's read is refused, and comes a clock later.
            answered(0, DONE, column_word(RD, 0, 4, 0, 0), DONE, 0, DONE, column_word(RD, 1, 4, 0, 0), TAKEN);
            schedule_read(0, {8{32'h01234567}});
            end_clock;
            answered(0, DONE, 0, DONE, 0, DONE, column_word(RD, 1, 4, 0, 0), DONE);
            schedule_read(1, {8{32'h89abcdef}});
            end_clock;
            idle(TIMING_T_CL + TIMING_T_WR);
            // A refresh is of one pseudo channel.
            answered(row_word(PREA, 0, 0), DONE, 0, DONE, 0, DONE, 0, DONE);
            end_clock;
            idle(TIMING_T_RP);
            answered(row_word(REF, 0, 0), DONE, 0, DONE, row_word(REF, 0, 0), TAKEN, 0, DONE);
            end_clock;
            answered(row_word(ACT, 0, 5), T_RFC, 0, DONE, row_word(REF, 0, 0), TAKEN, column_word(RD, 1, 4, 0, 0), DONE);
            schedule_read(1, {8{32'h89abcdef}});
            end_clock;
            answered(0, DONE, 0, DONE, row_word(REF, 0, 0), REF_OPEN, 0, DONE);
            end_clock;
            idle(TIMING_T_RFC);
            answered(0, DONE, 0, DONE, row_word(PREA, 0, 0), DONE, 0, DONE);
            end_clock;
            idle(TIMING_T_RP);
        end
    endtask

    // The hosts. Each has a row word and a column word that it repeats, or none, and takes a new one when the last was carried out.
    integer seed = 1;
    function integer below(input integer count);
        below = $unsigned($random(seed)) % count;
    endfunction
    reg [31:0] next_row [0:1], next_column [0:1];
    reg [255:0] next_value [0:1];
    // By pseudo channel and bank: open, and which of two rows.
    reg [31:0] open = 0, high = 0;
    integer done_rows [0:1], done_columns [0:1], at;
    reg [3:0] b;
    task choose(input integer of);
        begin
            b = below(16);
            at = 16 * of + b;
            if (next_row[of] == 0 && below(2) == 0) begin
                // A row is closed when no column word is on its way to it.
                if (!open[at]) next_row[of] = row_word(ACT, b, below(2) ? 77 : 300);
                else if (next_column[of] == 0 || next_column[of][8:5] != b) next_row[of] = row_word(PRE, b, 0);
            end
            b = below(16);
            at = 16 * of + b;
            if (next_column[of] == 0 && open[at] && !(next_row[of] != 0 && next_row[of][8:5] == b) && below(8) != 0) begin
                next_column[of] = column_word(WR, b, below(32), 0, 0);
                next_value[of] = {$random(seed), $random(seed), $random(seed), $random(seed), $random(seed), $random(seed), $random(seed), $random(seed)};
                if (cells[cell_of(of, b, high[at], next_column[of][13:9])][256] && below(3) != 0) next_column[of][3:0] = RD;
            end
        end
    endtask
    task carried_out(input integer of);
        begin
            if (next_row[of] != 0) begin
                at = 16 * of + next_row[of][8:5];
                if (row_status[of] == DONE) begin
                    open[at] = next_row[of][3:0] == ACT;
                    if (open[at]) high[at] = next_row[of][23:9] == 300;
                    next_row[of] = 0;
                    done_rows[of] = done_rows[of] + 1;
                end else if (row_status[of] < FIRST_DISTANCE || row_status[of] > LAST_DISTANCE && row_status[of] != TAKEN)
                    fail("refused row word", of, row_status[of], 0);
            end
            if (next_column[of] != 0) begin
                at = 16 * of + next_column[of][8:5];
                if (column_status[of] == DONE) begin
                    if (next_column[of][3:0] == WR) begin
                        schedule_write(of, next_value[of]);
                        cells[cell_of(of, next_column[of][8:5], high[at], next_column[of][13:9])] = {1'b1, next_value[of]};
                    end else schedule_read(of, cells[cell_of(of, next_column[of][8:5], high[at], next_column[of][13:9])]);
                    next_column[of] = 0;
                    done_columns[of] = done_columns[of] + 1;
                end else if (column_status[of] < FIRST_DISTANCE || column_status[of] > LAST_DISTANCE && column_status[of] != TAKEN)
                    fail("refused column word", of, column_status[of], 0);
            end
        end
    endtask

    integer k;
    initial begin
        for (k = 0; k < 2; k = k + 1) begin
            {row[k], column[k], next_row[k], next_column[k], taken_rows[k], taken_columns[k], done_rows[k], done_columns[k]} = 0;
        end
        repeat (4) @(negedge clk);
        rst_n = 1;
        buses;
        products;
        answered(row_word(PREA, 0, 0), DONE, 0, DONE, 0, DONE, 0, DONE);
        end_clock;
        answered(0, DONE, 0, DONE, row_word(PREA, 0, 0), DONE, 0, DONE);
        end_clock;
        repeat (CLOCKS) begin
            choose(0);
            choose(1);
            begin_clock(next_row[0], next_column[0], next_row[1], next_column[1]);
            carried_out(0);
            carried_out(1);
            end_clock;
        end
        idle(TIMING_T_CL + 2);
        $display("%0d and %0d row words, %0d and %0d column words done; taken %0d, %0d, %0d, %0d; %0d refused", done_rows[0], done_rows[1],
            done_columns[0], done_columns[1], taken_rows[0], taken_rows[1], taken_columns[0], taken_columns[1], refused);
        for (k = 0; k < 2; k = k + 1) begin
            if (done_rows[k] < CLOCKS / 40 || done_columns[k] < CLOCKS / 20) fail("too little done", k, done_columns[k], CLOCKS / 20);
            if (taken_rows[k] < CLOCKS / 200) fail("too few row words whose bus is taken", k, taken_rows[k], CLOCKS / 200);
        end
        if (errors == 0) $display("PASS");
        $finish_and_return(errors != 0);
    end
endmodule
