// canvas.frag - covers a pixel by a shape of game_canvas.h.
//
// atlas: glyphs, their coverage from 0 to 1; read at texel centres, so that text is as FreeType drew it.
#version 450

layout(location = 0) in vec2 at;
layout(location = 1) flat in vec4 box;
layout(location = 2) flat in vec4 more;
layout(location = 3) flat in vec4 colour;
layout(location = 4) flat in uint kind;

layout(set = 0, binding = 0) uniform sampler2D atlas;

layout(location = 0) out vec4 result;

const uint glyph_kind = 0u, box_kind = 1u;

// Signed distance to a box with round corners.
float box_distance(vec2 p, vec2 half_size, float radius)
{
    const vec2 d = abs(p) - half_size + radius;
    return length(max(d, 0.0)) + min(max(d.x, d.y), 0.0) - radius;
}

// Signed distance to the line from a to b, for a triangle that turns one way; positive outside.
float edge(vec2 p, vec2 a, vec2 b, float turn)
{
    const vec2 along = normalize(b - a);
    return turn * dot(p - a, vec2(along.y, -along.x));
}

float triangle_distance(vec2 p, vec2 a, vec2 b, vec2 c)
{
    const vec2 u = b - a, v = c - a;
    const float turn = u.x * v.y - u.y * v.x < 0.0 ? -1.0 : 1.0;
    return max(edge(p, a, b, turn), max(edge(p, b, c, turn), edge(p, c, a, turn)));
}

void main()
{
    float cover;
    if (kind == glyph_kind) {
        cover = texelFetch(atlas, ivec2(more.xy + at - box.xy), 0).r;
    } else if (kind == box_kind) {
        const float d = box_distance(at - 0.5 * (box.xy + box.zw), 0.5 * abs(box.zw - box.xy), more.x);
        cover = 1.0 - smoothstep(-0.5 * more.y, 0.5 * more.y, d);
    } else {
        cover = clamp(0.5 - triangle_distance(at, box.xy, box.zw, more.xy), 0.0, 1.0);
    }
    result = vec4(colour.rgb, colour.a * cover);
}
