// A controller that is reset amid its writes and reads, behind its DFI port: a bench of the packages of `rank_port` and `dfi_port`,
// written from docs/dfi.md, docs/rank-port.md and docs/isa.md. It contains its own PHY with a device, and its own expectations.
//
// Bursts are written, overwritten and read; RESET clocks after the first WR of the second series the controller's two resets go low. Each
// clock of the three enables is compared with what the commands at the port ask for. Afterwards what was acknowledged is still there, and a
// burst that was being written is the old one, or the new one with zeros in place of the words that were not sent any more.
`timescale 1ns/100fs

module bench;
    `include "params.vh"
    // docs/dfi.md, Parameters.
    localparam DELAY = 1 + DFI_T_PHY_WRDATA + DFI_WRITE_LEAD;
    localparam CL = DRAM_T_CL - (DELAY + DFI_READ_LAG + 1);
    localparam PHY_WRLAT = DRAM_T_CWL - DFI_WRITE_LEAD - DFI_T_PHY_WRDATA;
    localparam RDDATA_EN = CL - DFI_READ_LEAD;
    localparam PHY_RDLAT = DFI_READ_LEAD + DFI_READ_LAG;
    localparam WRITES = 4, STORED = 10;

    reg clk = 0, dram_clk = 0, system_rst_n = 0, rst_n = 0;
    always #0.5 clk = !clk;
    always #0.3125 dram_clk = !dram_clk;

    reg req_valid = 0, req_write;
    reg [RANK_BURST_BITS - 1:0] req_address;
    reg [511:0] req_data;
    wire req_ready, rsp_valid, rsp_write;
    wire [511:0] rsp_data;
    wire cs_n, act_n, bg, dq_oe;
    wire [1:0] ba;
    wire [17:0] a;
    wire [127:0] dq_out, dq_in;
    `RANK_PORT controller (
        .clk_i(clk), .rst_ni(rst_n), .dram_clk_i(dram_clk), .dram_rst_ni(rst_n),
        .seg_valid_i(1'b0), .seg_tag_i(4'd0), .seg_length_i(4'd0), .seg_address_i({RANK_BURST_BITS{1'b0}}), .seg_ready_o(),
        .req_valid_i(req_valid), .req_write_i(req_write), .req_tag_i(9'd0), .req_address_i(req_address), .req_data_i(req_data),
        .req_ready_o(req_ready), .beat_ready_i(1'b1), .beat_valid_o(), .beat_data_o(), .beat_tag_o(), .beat_last_o(),
        .rsp_ready_i(1'b1), .rsp_valid_o(rsp_valid), .rsp_data_o(rsp_data), .rsp_tag_o(), .rsp_write_o(rsp_write),
        .cs_n_o(cs_n), .act_n_o(act_n), .bg_o(bg), .ba_o(ba), .a_o(a), .dq_o(dq_out), .dq_oe_o(dq_oe), .dq_i(dq_in)
    );
    reg init_complete = 0, rddata_valid = 0;
    reg [127:0] rddata;
    wire ready, late, dfi_reset_n, dfi_cke, dfi_cs_n, dfi_odt, dfi_act_n, dfi_bg, wrdata_en, rddata_en;
    wire [1:0] dfi_bank;
    wire [17:0] dfi_address;
    wire [127:0] wrdata;
    wire [15:0] wrdata_mask;
    `DFI_PORT port (
        .clk_i(dram_clk), .rst_ni(system_rst_n), .cs_n_i(cs_n), .act_n_i(act_n), .bg_i(bg), .ba_i(ba), .a_i(a), .dq_i(dq_out),
        .dq_oe_i(dq_oe), .dfi_init_complete(init_complete), .dfi_rddata(rddata), .dfi_rddata_valid(rddata_valid), .dq_o(dq_in),
        .ready_o(ready), .late_o(late), .dfi_reset_n(dfi_reset_n), .dfi_cke(dfi_cke), .dfi_cs_n(dfi_cs_n), .dfi_odt(dfi_odt),
        .dfi_act_n(dfi_act_n), .dfi_bg(dfi_bg), .dfi_bank(dfi_bank), .dfi_address(dfi_address), .dfi_ras_n(), .dfi_cas_n(),
        .dfi_we_n(), .dfi_wrdata(wrdata), .dfi_wrdata_en(wrdata_en), .dfi_wrdata_mask(wrdata_mask), .dfi_rddata_en(rddata_en)
    );

    integer errors = 0, commands = 0;
    integer trial = 0;
    task wrong(input [8 * 40 - 1:0] what);
        begin
            errors = errors + 1;
            if (errors <= 10) $display("FAIL: reset after %0d clocks, clock %0d: %0s", trial, now, what);
        end
    endtask

    // The PHY and the device. What has to be at the port in clocks to come, by their low bits.
    reg [511:0] bursts [0:(1 << STORED) - 1];
    reg [16:0] row [0:7];
    reg [0:0] write_due [0:63], read_due [0:63], odt_due [0:63];
    reg sampled [0:63], given [0:63];
    reg [STORED - 1:0] write_place [0:63], read_place [0:63];
    reg [1:0] write_part [0:63], read_part [0:63];
    integer now = 0, i, last_given = 0, reads = 0, when;
    wire [26:0] at = {row[{dfi_bank, dfi_bg}], dfi_bank, dfi_address[9:3], dfi_bg};
    initial
        for (i = 0; i < 64; i = i + 1) begin
            write_due[i] = 0;
            read_due[i] = 0;
            odt_due[i] = 0;
            sampled[i] = 0;
            given[i] = 0;
        end

    always @(posedge dram_clk) begin
        if (ready === 1'b1 && dfi_cs_n === 1'b0) begin
            commands = commands + 1;
            if (!dfi_act_n) row[{dfi_bank, dfi_bg}] = dfi_address[16:0];
            else if (dfi_address[16:14] == 3'b100) begin
                for (i = 0; i < 6; i = i + 1) odt_due[(now + i) & 63] = 1;
                for (i = 0; i < 4; i = i + 1) begin
                    write_due[(now + PHY_WRLAT + i) & 63] = 1;
                    sampled[(now + PHY_WRLAT + DFI_T_PHY_WRDATA + i) & 63] = 1;
                    write_place[(now + PHY_WRLAT + DFI_T_PHY_WRDATA + i) & 63] = at[STORED - 1:0];
                    write_part[(now + PHY_WRLAT + DFI_T_PHY_WRDATA + i) & 63] = i;
                end
            end else if (dfi_address[16:14] == 3'b101)
                for (i = 0; i < 4; i = i + 1) begin
                    read_due[(now + RDDATA_EN + i) & 63] = 1;
                    // Data come at any time up to the latest, in order.
                    when = now + RDDATA_EN + i + 5 * reads % (PHY_RDLAT + 1);
                    if (when <= last_given) when = last_given + 1;
                    last_given = when;
                    given[when & 63] = 1;
                    read_place[when & 63] = at[STORED - 1:0];
                    read_part[when & 63] = i;
                    if (i == 3) reads = reads + 1;
                end
        end
        if (ready === 1'b1) begin
            if (wrdata_en !== write_due[now & 63]) wrong("dfi_wrdata_en");
            if (rddata_en !== read_due[now & 63]) wrong("dfi_rddata_en");
            if (dfi_odt !== odt_due[now & 63]) wrong("dfi_odt");
            if (late !== 1'b0) wrong("late_o");
            if ({dfi_reset_n, dfi_cke} !== 2'b11) wrong("the device is reset");
        end
        if (sampled[now & 63]) begin
            if (^wrdata === 1'bx) wrong("dfi_wrdata is unknown");
            if (wrdata_mask !== 16'd0) wrong("dfi_wrdata_mask");
            bursts[write_place[now & 63]][128 * write_part[now & 63] +: 128] = wrdata;
        end
        write_due[now & 63] = 0;
        read_due[now & 63] = 0;
        odt_due[now & 63] = 0;
        sampled[now & 63] = 0;
        // Data of the next clock.
        now = now + 1;
        rddata_valid <= given[now & 63];
        rddata <= given[now & 63] ? bursts[read_place[now & 63]][128 * read_part[now & 63] +: 128] : 128'bx;
        given[now & 63] = 0;
    end

    // Requests go one after the other; responses come in their order, and reads leave their data in `found`.
    integer asked, answered, read_back;
    reg [511:0] found [0:15];
    always @(posedge clk)
        if (rst_n && rsp_valid === 1'b1) begin
            answered = answered + 1;
            if (answered > asked) wrong("a response that was not asked for");
            if (!rsp_write) begin
                found[read_back] = rsp_data;
                read_back = read_back + 1;
            end
        end
    reg stopped;
    task request(input write, input integer address, input [511:0] data);
        if (!stopped) begin
            @(negedge clk);
            req_valid = 1;
            req_write = write;
            req_address = address;
            req_data = data;
            @(posedge clk);
            while (!req_ready && !stopped) @(posedge clk);
            if (!stopped) asked = asked + 1;
            @(negedge clk);
            req_valid = 0;
        end
    endtask
    task settle;
        while (answered != asked) @(posedge clk);
    endtask

    // Bursts of four rows in two banks; what is in them before and after.
    function integer place(input integer n);
        place = 256 * (n % 2) + 3 * n;
    endfunction
    function [511:0] contents(input [31:0] n, input [31:0] series);
        reg [31:0] seed;
        begin
            seed = 32'h01000193 * (n + 100 * series) + 32'h811C9DC5;
            contents = {16{seed}} ^ 512'd1 << (37 * n + series) % 512;
        end
    endfunction

    // Waits for the first WR at the controller's pins, and as many clocks as the trial has.
    integer last_reset;
    task cut;
        begin
            @(posedge dram_clk);
            while (!(cs_n === 1'b0 && act_n && a[16:14] == 3'b100)) @(posedge dram_clk);
            repeat (trial) @(posedge dram_clk);
            #0.1 stopped = 1;
            rst_n = 0;
            last_reset = now;
        end
    endtask

    integer n, word, words, series, cut_short = 0;
    reg [511:0] old, fresh;
    task check_burst(input integer n);
        begin
            old = contents(n, series - 1);
            fresh = contents(n, series);
            words = 0;
            while (words < 4 && found[n][128 * words +: 128] === fresh[128 * words +: 128]) words = words + 1;
            if (found[n] !== old) begin
                for (word = words; word < 4; word = word + 1)
                    if (found[n][128 * word +: 128] !== 128'd0) wrong("a burst is neither old nor cut short");
                if (words < 4) cut_short = cut_short + 1;
            end
            if (n < written && found[n] !== fresh) wrong("an acknowledged write is lost");
        end
    endtask

    integer written, last_trial;
    initial begin
        asked = 0;
        answered = 0;
        read_back = 0;
        stopped = 0;
        repeat (8) @(negedge dram_clk);
        system_rst_n = 1;
        repeat (20) @(negedge dram_clk);
        init_complete = 1;
        while (ready !== 1'b1) @(posedge dram_clk);
        repeat (8) @(negedge clk);
        rst_n = 1;
        series = 0;
        for (n = 0; n < 2 * WRITES; n = n + 1) request(1, place(n), contents(n, 0));
        settle;
        // Every clock from the first WR to the end of its data; some of the writes and reads after it.
        last_trial = DRAM_T_CWL + DRAM_T_CL + 48;
        for (trial = 0; trial <= last_trial && errors == 0; trial = trial + (trial < DRAM_T_CWL + 8 ? 1 : 6)) begin
            series = series + 1;
            asked = 0;
            answered = 0;
            read_back = 0;
            fork
                cut;
                begin
                    request(1, place(0), contents(0, series));
                    request(1, place(1), contents(1, series));
                    request(0, place(WRITES), 0);
                    request(1, place(2), contents(2, series));
                    request(0, place(WRITES + 1), 0);
                    request(1, place(3), contents(3, series));
                end
            join
            // Acknowledged writes, in the order of the requests.
            written = answered >= 6 ? 4 : answered >= 4 ? 3 : answered >= 2 ? 2 : answered;
            req_valid = 0;
            repeat (8) @(negedge clk);
            asked = 0;
            answered = 0;
            read_back = 0;
            stopped = 0;
            rst_n = 1;
            for (n = 0; n < 2 * WRITES; n = n + 1) request(0, place(n), 0);
            settle;
            for (n = 0; n < WRITES; n = n + 1) check_burst(n);
            for (n = WRITES; n < 2 * WRITES; n = n + 1) if (found[n] !== contents(n, 0)) wrong("a burst that is only read");
            // As before for the next trial, which has to keep its distance: each reset costs a REF (docs/rank-port.md).
            for (n = 0; n < WRITES; n = n + 1) request(1, place(n), contents(n, series));
            settle;
            while (now < last_reset + DRAM_T_REFI / 8) @(posedge dram_clk);
        end
        $display("%0d resets, %0d commands, %0d writes cut short", series, commands, cut_short);
        if (cut_short == 0 && errors == 0) wrong("no write was cut short");
        if (errors == 0) $display("PASS");
        else $display("FAIL: %0d errors", errors);
        $finish_and_return(errors == 0 ? 0 : 1);
    end

    initial begin
        #2000000;
        $display("FAIL: a request is never answered");
        $finish_and_return(1);
    end
endmodule
