// kv.glsl - rotary positions, and the place of keys and values in the pages of the cache.
#ifndef KV_GLSL
#define KV_GLSL

const uint ROPE_TABLE_LOW = 256; // rows of the rotary table's low part: src/model/model.h

// (cos, sin) of a position's angle for one pair, by adding the angles of the position's two parts.
vec2 rotation(uint64_t table, uint n_rot, uint position, uint pair)
{
    const uint pairs = n_rot / 2, high = position / ROPE_TABLE_LOW, low = position % ROPE_TABLE_LOW;
    const vec2 a = load_vec2(table, ((ROPE_TABLE_LOW + high) * pairs + pair) * 8u);
    const vec2 b = load_vec2(table, (low * pairs + pair) * 8u);
    return vec2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

vec2 rotate(vec2 x, vec2 r) { return vec2(x.x * r.x - x.y * r.y, x.x * r.y + x.y * r.x); }

// Where the layer begins in the page of the row's position.
uint64_t kv_page(row_state state, uint page_layer)
{
    return InAddress(state.pages + (state.position / KV_PAGE_KEYS) * 8u).v + page_layer;
}

// The first value of a key in its page: k heads first, then v heads, each [KV_PAGE_KEYS][head_pad].
uint kv_element(uint head, uint key, uint head_pad) { return (head * KV_PAGE_KEYS + key) * head_pad; }

// How many splits the keys of a row have, at most `most`: a power of two by its own keys alone, so that a row's sums
// are the same in every batch. Twin: vki_attention_splits. split_keys 0: `most`.
uint row_splits(uint most, uint split_keys, uint keys)
{
    if (most == 1 || split_keys == 0) return most;
    const uint parts = (keys + split_keys - 1) / split_keys;
    return parts <= 1 ? 1 : min(most, 1u << (findMSB(parts - 1) + 1));
}

// Eight values from `element` on, a multiple of 8.
void load_kv8(uint64_t page, bool f32, uint element, out vec4 low, out vec4 high)
{
    if (f32) {
        low = load_vec4(page, element * 4u);
        high = load_vec4(page, element * 4u + 16u);
    } else {
        unpack_half8(load_uvec4(page, element * 2u), low, high);
    }
}

// Two values of a head.
void store_kv(uint64_t page, bool f32, uint head_pad, uint head, uint key, uint at, vec2 value)
{
    const uint element = kv_element(head, key, head_pad) + at;
    if (f32) OutVec2(page + element * 4u).v = value;
    else OutUint(page + element * 2u).v = packHalf2x16(value);
}
#endif
