#version 460
// sample.comp - the last kernel of a step: a token for every row, and the row moves on.
//
// in:  state [rows] with the address of each row's struct sampling (0: greedy), partial [rows][parts] of argmax.comp or
//      of the head, logits [rows][stride] f32; bias and penalties change both in place. parts 0: the host draws
// out: state [rows]: token, position + 1, step + 1; ring [ring_steps][ring_rows] u32: the token, ~0 where a logit is
//      no finite number; history [position + 1]: the token
// grid: workgroup x = row. constants: 0 local size, 1 ONE_SUBGROUP. CPU twin: vki_sampler_draw.
//
// Order: bias, penalties, top-k, top-p, min-p, temperature, draw. Tokens stand in one order, larger logits first, lower
// ids on ties, as numbers of 64 bits ("places"): each cut keeps the first so many. Weights are exp(logit - highest) in
// units of 2^-40, so sums are the same in every order: no result depends on how invocations ran.
//   Few candidates: the parts' maxima, in SLOTS groups, bound the k-th largest logit from below. What is not below the
// bound is about k logits, which are listed and sorted; all cuts and the draw happen there.
//   The general way (large k, or a list too short or too long): the place at which a sum reaches its target is found two
// bits at a time, each by a pass over the logits that skips parts that cannot matter.
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_memory_scope_semantics : require
#include "lib/common.glsl"
#include "lib/argmax.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const bool ONE_SUBGROUP = false;
layout(push_constant, std430) uniform Push { sample_push pc; };
layout(buffer_reference, std430, buffer_reference_align = 8) buffer InOutRow { row_state v; };
layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer InSampling { sampling v; };
layout(buffer_reference, std430, buffer_reference_align = 4) coherent buffer Count { uint v; };

const uint NONE = ~0u;
const uint SLOTS = 256;      // groups of parts
const uint LIST = 512;       // candidates
const uint MOST = 128;       // of the slots that bound them
const uint MAX_LOCAL = 256;
const float LEAST = -3.4028233e38; // that penalties leave; LOWEST is banned by a bias
const float COUNT = -1.0;    // a scale: every weight is 1

shared float slots[SLOTS];
shared uint64_t pool[2 * LIST]; // the list as it came, then its weights; the list in order. Or sums by invocation
shared uint n_listed;
shared float border;

// Of the workgroup's row.
sampling s;
uint64_t logits, partial;
float highest;

// All atomics and barriers are of the workgroup alone: where the memory model is on, the device's scope is a feature.
void sync()
{
    controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, gl_StorageSemanticsBuffer, gl_SemanticsAcquireRelease);
}

float load_logit(uint id) { return Logit(logits + id * 4u).v; }
uvec2 load_part(uint part) { return Part(partial + part * 8u).v; }
Count count_of(uint id) { return Count(s.counts + id * 4u); }

uint64_t place_of(float logit, uint id)
{
    const uint bits = logit == 0.0 ? 0u : floatBitsToUint(logit), key = bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
    return (uint64_t(key) << 32) + ~id; // neither packed nor or'ed: lavapipe crashes packing 16 lanes of 64 bits
}

float logit_of(uint64_t place)
{
    const uint key = unpackUint2x32(place).y;
    return uintBitsToFloat(key >> 31 != 0 ? key ^ 0x80000000u : ~key);
}

uint id_of(uint64_t place) { return ~unpackUint2x32(place).x; }

uint64_t weight_of(float logit, float scale)
{
    if (scale < 0.0) return 1ul;
    return uint64_t(exp(max((logit - highest) * scale, -100.0)) * 1099511627776.0);
}

// total * fraction / 2^32
uint64_t part_of(uint64_t total, uint fraction)
{
    return (total >> 32) * fraction + (((total & 0xfffffffful) * fraction) >> 32);
}

// splitmix64 (Steele, Lea, Flood 2014), number `at` of the seed.
uint random_at(uint at)
{
    uint64_t z = packUint2x32(uvec2(s.seed_low, s.seed_high)) + uint64_t(at) * 0x9e3779b97f4a7c15ul;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ul;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebul;
    return uint((z ^ (z >> 31)) >> 32);
}

// ---- Bias and penalties ------------------------------------------------------------------------

void add_bias(uint id, float bias)
{
    const float logit = load_logit(id);
    if (is_finite(logit)) Logit(logits + id * 4u).v = clamp(logit + bias, LOWEST, -LOWEST);
}

// A function of its own: glslang 12 does not come to an end where precise meets the struct s.
float lowered(float logit, float factor, float presence, float frequent)
{
    precise const float repeated = logit * factor;
    precise const float present = repeated - presence;
    precise const float changed = present - frequent;
    return changed;
}

void penalise(uint id, uint count)
{
    const float logit = load_logit(id);
    if (!is_finite(logit) || logit <= LOWEST) return;
    const float factor = logit > 0.0 ? s.inverse_repeat : s.repeat;
    Logit(logits + id * 4u).v = clamp(lowered(logit, factor, s.presence, s.frequency * float(count)), LEAST, -LOWEST);
}

void renew_part(uint part)
{
    const uvec2 best = best_of_part(logits, part, pc.n_vocab);
    Part(partial + part * 8u).v = best;
}

// n_tokens: of the sequence so far.
void change_logits(uint n_tokens)
{
    const uint me = gl_LocalInvocationID.x, n = min(min(s.window, n_tokens), s.n_history);
    const uint64_t recent = s.history + (min(n_tokens, s.n_history) - n) * 4u;
    for (uint i = me; i < s.n_bias; i += gl_WorkGroupSize.x) {
        const uvec2 bias = load_uvec2(s.bias, i * 8u);
        if (bias.x < pc.n_vocab) add_bias(bias.x, uintBitsToFloat(bias.y));
    }
    for (uint phase = 0; phase < 3; phase++) {
        for (uint i = me; i < n; i += gl_WorkGroupSize.x) {
            const uint id = load_uint(recent, i * 4u);
            if (id >= pc.n_vocab) continue;
            if (phase == 0) count_of(id).v = 0u;
            if (phase == 1) atomicAdd(count_of(id).v, 1u, gl_ScopeWorkgroup, 0, 0);
            if (phase == 2) {
                const uint count = atomicExchange(count_of(id).v, 0u, gl_ScopeWorkgroup, 0, 0); // one invocation gets it
                if (count > 0) penalise(id, count);
            }
        }
        sync();
    }
    for (uint i = me; i < s.n_bias + n; i += gl_WorkGroupSize.x) {
        const uint id = i < n ? load_uint(recent, i * 4u) : load_uint(s.bias, (i - n) * 8u);
        if (id < pc.n_vocab) renew_part(id / PART);
    }
    sync();
}

// ---- The likeliest ------------------------------------------------------------------------------

// Fills highest and slots. NONE where a logit is no finite number.
uint find_best()
{
    const uint n = min(pc.parts, SLOTS);
    float best = LOWEST;
    uint id = NONE;
    for (uint slot = gl_LocalInvocationID.x; slot < n; slot += gl_WorkGroupSize.x) {
        float most = LOWEST;
        for (uint part = slot; part < pc.parts; part += SLOTS) {
            const uvec2 p = load_part(part);
            take_better(best, id, uintBitsToFloat(p.x), p.y);
            most = max(most, uintBitsToFloat(p.x));
        }
        slots[slot] = most;
    }
    reduce_best(best, id, ONE_SUBGROUP);
    highest = best;
    return best <= -LOWEST ? id : NONE;
}

// The k-th largest of the slots; LEAST where there are fewer.
float bound(uint k)
{
    const uint n = min(pc.parts, SLOTS);
    if (k > n) return LEAST;
    barrier();
    for (uint slot = gl_LocalInvocationID.x; slot < n; slot += gl_WorkGroupSize.x) {
        const float mine = slots[slot];
        uint rank = 0;
        for (uint i = 0; i < n; i++) rank += uint(slots[i] > mine || (slots[i] == mine && i < slot));
        if (rank == k - 1) border = mine;
    }
    barrier();
    return max(border, LEAST);
}

// ---- The general way ------------------------------------------------------------------------------

// sums[i]: of the weights of all places from first + i * step on.
void add_up(float scale, uint64_t first, uint64_t step, out uint64_t sums[3])
{
    const uint me = gl_LocalInvocationID.x;
    vec4 few[2];
    [[unroll]] for (uint q = 0; q < 3; q++) sums[q] = 0ul;
    for (uint part = me; part < pc.parts; part += gl_WorkGroupSize.x) {
        const float most = uintBitsToFloat(load_part(part).x);
        if (place_of(most, 0u) < first || weight_of(most, scale) == 0ul) continue;
        [[dont_unroll]] for (uint i = 0; i < PART; i += FEW) {
            const uint id = part * PART + i;
            load_few(logits, id, pc.n_vocab, few);
            [[unroll]] for (uint k = 0; k < FEW; k++) {
                const float logit = few[k / 4][k % 4];
                const uint64_t place = place_of(logit, id + k), weight = weight_of(logit, scale);
                [[unroll]] for (uint q = 0; q < 3; q++)
                    if (place >= first + q * step) sums[q] += weight;
            }
        }
    }
    barrier();
    [[unroll]] for (uint q = 0; q < 3; q++) pool[q * MAX_LOCAL + me] = sums[q];
    barrier();
    [[unroll]] for (uint q = 0; q < 3; q++) sums[q] = 0ul;
    for (uint i = 0; i < gl_WorkGroupSize.x; i++)
        [[unroll]] for (uint q = 0; q < 3; q++) sums[q] += pool[q * MAX_LOCAL + i];
}

uint64_t sum_of_all(float scale)
{
    uint64_t sums[3];
    add_up(scale, place_of(LEAST, NONE), 0ul, sums);
    return sums[0];
}

// Each stage, top-k, top-p and the draw, finds the place at which the sum of the weights, in order, exceeds a target:
// a fraction of the sum of what the stages before kept. cut: by min-p.
uint draw_from_all(float cut, uint random)
{
    const int id_bits = (findMSB(pc.n_vocab - 1) + 2) & ~1; // rounded up
    uint64_t last = place_of(LEAST, NONE), place, sums[3];
    for (uint stage = 0; stage < 3; stage++) {
        if (stage == 0 && (s.top_k == 0 || s.top_k >= pc.n_vocab)) continue;
        if (stage == 1 && s.top_p == 0) continue;
        if (stage == 2) last = max(last, place_of(cut, NONE));
        const float scale = stage == 0 ? COUNT : stage == 1 ? 1.0 : s.inverse_temperature;
        uint64_t target = 0ul;
        place = 0ul;
        for (int shift = 64; shift >= 0; shift -= 2) {
            if (shift < 32 && shift >= id_bits) {
                place |= 3ul << shift; // of the complement of every id
                continue;
            }
            const bool first = shift == 64;
            const uint64_t step = first ? 0ul : 1ul << shift;
            add_up(scale, first ? last : place + step, step, sums);
            if (!first) place += uint64_t(sums[2] > target ? 3 : sums[1] > target ? 2 : sums[0] > target ? 1 : 0) << shift;
            else if (stage == 0) target = s.top_k - 1;
            else if (stage == 1) target = max(part_of(sums[0], s.top_p), 1ul) - 1ul; // is reached
            else target = part_of(sums[0], random);
        }
        last = max(last, place);
    }
    return id_of(place);
}

// ---- The list ---------------------------------------------------------------------------------------

void list_from(float least)
{
    vec4 few[2];
    barrier();
    if (gl_LocalInvocationID.x == 0) n_listed = 0;
    barrier();
    for (uint part = gl_LocalInvocationID.x; part < pc.parts; part += gl_WorkGroupSize.x) {
        if (uintBitsToFloat(load_part(part).x) < least) continue;
        [[dont_unroll]] for (uint i = 0; i < PART; i += FEW) {
            const uint id = part * PART + i;
            load_few(logits, id, pc.n_vocab, few);
            [[unroll]] for (uint k = 0; k < FEW; k++) {
                const float logit = few[k / 4][k % 4];
                if (logit < least) continue;
                const uint at = atomicAdd(n_listed, 1u, gl_ScopeWorkgroup, 0, 0);
                if (at < LIST) pool[at] = place_of(logit, id + k);
            }
        }
    }
    barrier();
}

void sort_list(uint n)
{
    for (uint i = gl_LocalInvocationID.x; i < n; i += gl_WorkGroupSize.x) {
        const uint64_t mine = pool[i];
        uint rank = 0;
        for (uint k = 0; k < n; k++) rank += uint(pool[k] > mine);
        pool[LIST + rank] = mine;
    }
    barrier();
}

// Returns the sum of the first n.
uint64_t weigh_list(uint n, float scale)
{
    barrier();
    for (uint i = gl_LocalInvocationID.x; i < n; i += gl_WorkGroupSize.x)
        pool[i] = weight_of(logit_of(pool[LIST + i]), scale);
    barrier();
    uint64_t sum = 0ul;
    for (uint i = 0; i < n; i++) sum += pool[i];
    return sum;
}

// How many of the list's first n reach the limit by their weights; NONE where all do not.
uint reach(uint n, uint64_t limit)
{
    uint64_t sum = 0ul;
    for (uint i = 0; i < n; i++) {
        sum += pool[i];
        if (sum >= limit) return i + 1;
    }
    return NONE;
}

// The token, or NONE where the list does not say.
uint draw_from_list(float cut, uint random)
{
    const bool all = s.top_k == 0 || s.top_k >= pc.n_vocab, near = s.log_min_p > LOWEST;
    const float scale = s.inverse_temperature;
    uint64_t total = 0ul;
    if (!all && s.top_k > MOST) return NONE;
    if (all && (s.top_p != 0 || !near)) total = sum_of_all(s.top_p != 0 ? 1.0 : scale);
    list_from(all && near ? cut : bound(all ? MOST : s.top_k));
    uint n = n_listed;
    if (n > LIST) return NONE;
    sort_list(n);
    if (!all) n = min(n, s.top_k);
    bool whole = !all || near; // all that is kept is listed
    if (s.top_p != 0) {
        const uint64_t listed = weigh_list(n, 1.0);
        const uint kept = reach(n, part_of(all ? total : listed, s.top_p));
        if (kept == NONE && !whole) return NONE;
        whole = true;
        n = min(n, kept);
    }
    while (n > 1 && logit_of(pool[LIST + n - 1]) < cut) n--;
    const uint64_t listed = weigh_list(n, scale);
    const uint chosen = reach(n, part_of(whole ? listed : total, random) + 1ul);
    return chosen == NONE ? NONE : id_of(pool[LIST + chosen - 1]);
}

uint draw(uint at)
{
    const uint random = random_at(at);
    const float cut = s.log_min_p > LOWEST ? max(highest + s.log_min_p, LEAST) : LEAST;
    const uint id = draw_from_list(cut, random);
    return id != NONE ? id : draw_from_all(cut, random);
}

void main()
{
    const uint row = gl_WorkGroupID.x;
    InOutRow state = InOutRow(pc.state + row * 32u);
    const row_state before = state.v;
    uint token = before.token;
    if (pc.parts != 0) {
        s.history = 0ul;
        s.inverse_temperature = 0.0;
        s.n_bias = s.window = 0u;
        if (before.sampling != 0ul) s = InSampling(before.sampling).v;
        logits = pc.logits + row * pc.stride * 4u;
        partial = pc.partial + row * pc.parts * 8u;
        if (s.n_bias + s.window > 0) change_logits(before.position + 1);
        token = find_best();
        if (token != NONE && s.inverse_temperature > 0.0) token = draw(before.position + 1 + s.offset);
    }
    if (gl_LocalInvocationID.x != 0) return;
    state.v.token = token;
    state.v.position = before.position + 1;
    state.v.step = before.step + 1;
    if (pc.parts == 0) return;
    OutUint(pc.ring + ((before.step % pc.ring_steps) * pc.ring_rows + row) * 4u).v = token;
    if (s.window > 0 && before.position + 1 < s.n_history)
        OutUint(s.history + (before.position + 1) * 4u).v = token;
}
