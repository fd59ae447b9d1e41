// canvas.vert - one quad for each shape of game_canvas.h: glyphs, boxes, triangles.
//
// Instance: a shape. Vertices: 6, two triangles. Push: the picture's size in pixels.
#version 450

layout(location = 0) in vec4 box;
layout(location = 1) in vec4 more;
layout(location = 2) in vec4 colour;
layout(location = 3) in uint kind;

layout(push_constant) uniform push { vec2 size; };

layout(location = 0) out vec2 at; // in pixels
layout(location = 1) flat out vec4 shape_box;
layout(location = 2) flat out vec4 shape_more;
layout(location = 3) flat out vec4 shape_colour;
layout(location = 4) flat out uint shape_kind;

const uint triangle_kind = 2u, box_kind = 1u;

void main()
{
    vec2 low = min(box.xy, box.zw), high = max(box.xy, box.zw);
    if (kind == triangle_kind) {
        low = min(low, more.xy) - 1.0;
        high = max(high, more.xy) + 1.0;
    } else if (kind == box_kind) {
        low -= more.y;
        high += more.y;
    }
    const vec2 corner = vec2(gl_VertexIndex == 1 || gl_VertexIndex >= 4 ? 1.0 : 0.0,
                             gl_VertexIndex == 2 || gl_VertexIndex == 3 || gl_VertexIndex == 5 ? 1.0 : 0.0);
    at = mix(low, high, corner);
    shape_box = box;
    shape_more = more;
    shape_colour = colour;
    shape_kind = kind;
    gl_Position = vec4(at / size * 2.0 - 1.0, 0.0, 1.0);
}
