// scene.frag - a village by a lake at night, with an owl and a fox that talk. All of it is computed for each pixel.
//
// Push: `scene` of game_renderer.h. `layers` sheets of aurora are summed, which is what the cost of a frame is set
// with. Places: p, y from -1 (bottom) to 1 or farther in a tall picture, x as far as it is wide; the sky and what
// stands before it take y from the waterline. Branches leave out what cannot reach a pixel.
#version 450

layout(push_constant) uniform push {
    vec2 size;
    float time;
    int layers;
    vec2 talk;
    vec2 look;
};

layout(location = 0) out vec4 result;

const float waterline = -0.22;
const vec2 owl_place = vec2(-0.98, -0.60), fox_place = vec2(0.98, -0.62), lamp_place = vec2(0.36, -0.66);
const vec2 moon_place = vec2(0.36, 0.86);
const vec3 lamp_light = vec3(1.0, 0.66, 0.28);

// ---- Noise -------------------------------------------------------------------------------------------

float hash1(float n)
{
    n = fract(n * 0.1031);
    n *= n + 33.33;
    return fract(n * (n + n));
}

float hash(vec2 p)
{
    p = fract(p * vec2(123.34, 345.45));
    p += dot(p, p + 34.345);
    return fract(p.x * p.y);
}

float noise(vec2 p)
{
    const vec2 cell = floor(p), f = fract(p), s = f * f * (3.0 - 2.0 * f);
    return mix(mix(hash(cell), hash(cell + vec2(1, 0)), s.x),
               mix(hash(cell + vec2(0, 1)), hash(cell + vec2(1, 1)), s.x), s.y);
}

float noise1(float x)
{
    const float cell = floor(x), f = x - cell;
    return mix(hash1(cell), hash1(cell + 1.0), f * f * (3.0 - 2.0 * f));
}

// Four octaves, from 0 to about 0.94.
float rough1(float x)
{
    return 0.5 * noise1(x) + 0.25 * noise1(x * 2.03 + 17.1) + 0.125 * noise1(x * 4.12 + 51.7) +
           0.0625 * noise1(x * 8.37 + 113.3);
}

// ---- Painting ----------------------------------------------------------------------------------------

float square(float x) { return x * x; }

// Half of the height of the picture, or of the part of a tall one that has all that matters.
float unit() { return 0.5 * min(size.y, 0.6 * size.x); }

float pixel() { return 1.0 / unit(); }

// Lays a colour over c where the distance is negative.
void paint(inout vec3 c, float d, vec3 colour) { c = mix(c, colour, smoothstep(pixel(), -pixel(), d)); }

float ellipse(vec2 p, vec2 radii)
{
    const float k = length(p / radii);
    return (k - 1.0) * min(radii.x, radii.y);
}

float box(vec2 p, vec2 half_size, float radius)
{
    const vec2 d = abs(p) - half_size + radius;
    return length(max(d, 0.0)) + min(max(d.x, d.y), 0.0) - radius;
}

// An upright triangle: its base on y = 0.
float spike(vec2 p, float half_width, float height)
{
    const vec2 side = normalize(vec2(height, half_width));
    return max(dot(vec2(abs(p.x), p.y) - vec2(half_width, 0.0), side), -p.y);
}

vec2 turn(vec2 p, float angle)
{
    const float c = cos(angle), s = sin(angle);
    return vec2(c * p.x + s * p.y, c * p.y - s * p.x);
}

// ---- Sky ---------------------------------------------------------------------------------------------

vec3 stars(vec2 p)
{
    const vec2 cell = floor(p * 26.0), f = fract(p * 26.0);
    const float seed = hash(cell);
    const vec2 place = 0.15 + 0.7 * vec2(hash(cell + 3.1), hash(cell + 7.7));
    const float twinkle = 0.65 + 0.35 * sin(time * (1.0 + 3.0 * seed) + 40.0 * seed);
    const float bright = smoothstep(0.55, 1.0, seed) * twinkle;
    const float near = length(f - place);
    return mix(vec3(0.7, 0.8, 1.0), vec3(1.0, 0.9, 0.75), hash(cell + 5.3)) * bright *
           smoothstep(0.10, 0.0, near);
}

// Each sheet hangs on a line that winds over the sky; what bends and parts it depends on x alone.
vec3 aurora(vec2 p)
{
    vec3 sum = vec3(0.0);
    for (int i = 0; i < layers; i++) {
        const float z = (float(i) + 0.5) / float(layers), drift = time * 0.05 + z * 2.3;
        const float bend = noise1(p.x * 0.9 + drift + z * 31.0) + 0.35 * noise1(p.x * 2.7 - drift + z * 57.0);
        const float up = p.y - 0.34 - 0.30 * z - 0.34 * bend;
        const float rays = 0.35 + 0.65 * noise1(p.x * 9.0 + bend * 6.0 + drift * 4.0 + z * 91.0);
        const float glow = smoothstep(-0.05, 0.02, up) * exp2(-max(up, 0.0) * 8.0) * rays;
        sum += glow * mix(vec3(0.10, 0.85, 0.48), vec3(0.55, 0.22, 0.80), clamp(up * 2.6, 0.0, 1.0));
    }
    return sum * 1.15 / float(max(layers, 1));
}

void moon(inout vec3 c, vec2 p)
{
    const float d = length(p);
    c += vec3(0.75, 0.80, 1.0) * (0.15 * exp2(-d * 4.6) + 0.26 * exp2(-d * 17.0));
    if (d > 0.11) return;
    const float seas = smoothstep(0.40, 0.72, 0.65 * noise(p * 17.0 + 4.0) + 0.35 * noise(p * 41.0));
    const vec3 face = mix(vec3(0.98, 0.95, 0.86), vec3(0.76, 0.75, 0.74), seas) * (1.0 - 18.0 * d * d);
    c = mix(c, face, smoothstep(0.098, 0.094, d));
}

vec3 sky(vec2 p)
{
    const float height = clamp(p.y / 1.25, 0.0, 1.0);
    vec3 c = mix(vec3(0.17, 0.16, 0.33), vec3(0.014, 0.028, 0.085), sqrt(height));
    c += vec3(0.36, 0.15, 0.14) * exp2(-max(p.y, 0.0) * 8.6);
    c += stars(p);
    if (p.y > 0.28) c += aurora(p);
    moon(c, p - moon_place);
    return c;
}

// ---- The far shore -------------------------------------------------------------------------------------

void ridge(inout vec3 c, vec2 p, float base, float high, float wide, float seed, vec3 colour)
{
    if (p.y > base + high) return;
    const float top = base + high * rough1(p.x * wide + seed * 7.0);
    const float snow = smoothstep(base + high * 0.50, base + high * 0.62, p.y + 0.035 * noise1(p.x * 24.0 + 9.0 * p.y));
    const vec3 lit = mix(colour, vec3(0.52, 0.57, 0.74), 0.55 * snow);
    paint(c, p.y - top, mix(lit, vec3(0.20, 0.17, 0.30), 0.35 * exp(-max(p.y, 0.0) * 9.0)));
}

void house(inout vec3 c, vec2 p, float seed)
{
    const float wide = 0.050 + 0.020 * hash1(seed), high = 0.046 + 0.022 * hash1(seed + 1.0);
    const vec3 wall = mix(vec3(0.16, 0.12, 0.14), vec3(0.11, 0.11, 0.17), hash1(seed + 2.0));
    paint(c, box(p - vec2(0.0, high * 0.5), vec2(wide, high * 0.5), 0.0), wall);
    paint(c, box(p - vec2(wide * 0.55, high + 0.028), vec2(0.008, 0.028), 0.0), vec3(0.10, 0.07, 0.09));
    paint(c, spike(p - vec2(0.0, high), wide * 1.25, 0.050), vec3(0.09, 0.075, 0.125));
    const float flicker = 0.88 + 0.12 * noise(vec2(time * 2.0, seed * 9.0));
    const vec2 pane = vec2(abs(p.x) - wide * 0.48, p.y - high * 0.55);
    paint(c, box(pane, vec2(0.0105, 0.0135), 0.002), vec3(1.0, 0.74, 0.36) * flicker);
    paint(c, box(pane, vec2(0.0012, 0.0135), 0.0), wall);
    c += lamp_light * 0.10 * flicker * exp(-length(p - vec2(0.0, high * 0.5)) * 15.0);
}

void tree(inout vec3 c, vec2 p, float high)
{
    float d = spike(p, high * 0.30, high * 0.62);
    d = min(d, spike(p - vec2(0.0, high * 0.28), high * 0.24, high * 0.50));
    paint(c, min(d, spike(p - vec2(0.0, high * 0.54), high * 0.17, high * 0.46)), vec3(0.030, 0.052, 0.075));
}

vec3 far_shore(vec2 p)
{
    vec3 c = sky(p);
    if (p.y > 0.62) return c;
    ridge(c, p, 0.10, 0.66, 0.85, 3.7, vec3(0.135, 0.150, 0.270));
    ridge(c, p, 0.03, 0.40, 1.50, 9.1, vec3(0.085, 0.100, 0.190));
    ridge(c, p, 0.00, 0.15, 3.10, 5.3, vec3(0.045, 0.065, 0.110));
    if (p.y > 0.20) return c;
    for (int i = 0; i < 9; i++) {
        const float seed = float(i), x = (seed - 4.0) * 0.43 + 0.20 * (hash1(seed + 20.0) - 0.5);
        if (abs(p.x - x) > 0.30) continue;
        tree(c, p - vec2(x + 0.17, 0.0), 0.10 + 0.06 * hash1(seed + 30.0));
        if (i % 4 != 3) house(c, p - vec2(x, 0.002), seed);
    }
    return c;
}

vec3 lake(vec2 p)
{
    const float depth = waterline - p.y, near = depth / (depth + 0.25);
    const float waves = depth / (0.3 + depth);
    const vec2 ripple = vec2(noise(vec2(p.x * 7.0, waves * 60.0 - time * 0.9)),
                             noise(vec2(p.x * 3.0 + 9.0, waves * 46.0 + time * 0.7))) - 0.5;
    vec3 c = far_shore(vec2(p.x, depth * 1.15) + ripple * vec2(0.05, 0.12) * (0.25 + near));
    c = c * vec3(0.50, 0.60, 0.78) + vec3(0.010, 0.020, 0.045);
    const float path = exp(-square((p.x - moon_place.x) / (0.07 + 0.25 * depth)));
    return c + vec3(0.60, 0.62, 0.70) * path * smoothstep(0.20, 0.48, ripple.x + 0.3 * ripple.y) * 0.8;
}

// ---- The near shore ------------------------------------------------------------------------------------

float ground(float x)
{
    const float left = exp(-square((x + 1.15) / 0.62)), right = exp(-square((x - 1.15) / 0.66));
    return -0.80 + 0.20 * left + 0.18 * right + 0.025 * noise1(x * 4.0 + 77.0);
}

void meadow(inout vec3 c, vec2 p)
{
    const float sway = 0.012 * sin(time * 1.3 + p.x * 5.0);
    if (p.y > -0.45) return;
    const float blades = 0.055 * noise1((p.x + sway) * 85.0) * noise1(p.x * 9.0 + 300.0);
    const float deep = ground(p.x) - p.y;
    vec3 grass = mix(vec3(0.070, 0.125, 0.120), vec3(0.012, 0.030, 0.040), clamp(deep * 2.6, 0.0, 1.0));
    grass *= 0.72 + 0.55 * noise(vec2(p.x * 60.0, p.y * 16.0));
    grass += lamp_light * 0.34 * exp(-length((p - lamp_place) * vec2(1.0, 1.5)) * 4.2) * (0.6 + 0.4 * noise(p * 45.0));
    paint(c, -deep - blades, grass);
}

void lamp(inout vec3 c, vec2 p)
{
    const float flicker = 0.92 + 0.08 * noise(vec2(time * 5.0, 3.0));
    const vec3 iron = vec3(0.055, 0.050, 0.062);
    paint(c, box(p - vec2(0.0, 0.110), vec2(0.040, 0.062), 0.012), vec3(1.0, 0.80, 0.42) * flicker);
    paint(c, ellipse(p - vec2(0.0, 0.100), vec2(0.016, 0.036)), vec3(1.0, 0.97, 0.84));
    paint(c, box(p - vec2(0.0, 0.042), vec2(0.050, 0.010), 0.004), iron);
    paint(c, spike(p - vec2(0.0, 0.168), 0.054, 0.038), iron);
    paint(c, box(vec2(abs(p.x) - 0.040, p.y - 0.11), vec2(0.004, 0.064), 0.0), iron);
    paint(c, abs(length(p - vec2(0.0, 0.214)) - 0.018) - 0.004, iron);
    c += lamp_light * flicker * (0.34 * exp(-length(p - vec2(0.0, 0.11)) * 6.5));
}

// Light from the lamp on that side of a body, and the moon's from above.
vec3 lit(vec3 colour, vec2 p, float toward_lamp)
{
    const float warm = clamp(0.35 + 1.6 * p.x * toward_lamp, 0.0, 1.0), cool = clamp(0.35 + p.y, 0.0, 1.0);
    return colour * (vec3(0.30, 0.33, 0.44) + lamp_light * 0.62 * warm + vec3(0.16, 0.18, 0.25) * cool);
}

void eye(inout vec3 c, vec2 p, float radius, vec3 iris, float blink, vec2 gaze)
{
    const vec2 opened = vec2(radius, radius * max(blink, 0.06));
    paint(c, ellipse(p, opened), iris);
    if (blink > 0.3) {
        paint(c, ellipse(p - gaze * radius * 0.28, opened * 0.58), vec3(0.02));
        paint(c, length(p - gaze * radius * 0.28 - radius * vec2(-0.2, 0.22)) - radius * 0.17, vec3(1.0));
    }
}

float blinking(float seed) { return smoothstep(0.0, 0.03, abs(fract(time * 0.23 + seed) - 0.5) - 0.006); }

void owl(inout vec3 c, vec2 p, float open, float listen)
{
    const vec3 brown = lit(vec3(0.50, 0.36, 0.25), p - vec2(0.0, 0.3), 1.0);
    const vec3 dark = brown * 0.62, pale = lit(vec3(0.86, 0.76, 0.60), p - vec2(0.0, 0.3), 1.0);
    paint(c, box(p - vec2(0.0, 0.000), vec2(0.175, 0.085), 0.03), lit(vec3(0.25, 0.17, 0.13), p, 1.0));
    paint(c, ellipse(p - vec2(0.0, 0.085), vec2(0.175, 0.032)), lit(vec3(0.48, 0.35, 0.24), p, 1.0));
    p.y -= 0.09 + 0.004 * sin(time * 1.9);
    paint(c, ellipse(turn(p - vec2(-0.115, 0.035), 0.5), vec2(0.05, 0.12)), dark);
    paint(c, ellipse(p - vec2(0.0, 0.190), vec2(0.158, 0.195)), brown);
    const vec2 scale = vec2(p.x * 26.0, p.y * 24.0 + 0.5 * mod(floor(p.x * 26.0), 2.0));
    const float feather = smoothstep(0.25, 0.0, abs(length(fract(scale) - vec2(0.5, 0.9)) - 0.48));
    paint(c, ellipse(p - vec2(0.012, 0.140), vec2(0.100, 0.130)), pale - 0.16 * feather);
    paint(c, ellipse(turn(p - vec2(-0.132, 0.170), -0.20), vec2(0.044, 0.135)), dark);
    paint(c, ellipse(turn(p - vec2(0.136, 0.170), 0.20), vec2(0.044, 0.135)), dark * 1.1);
    for (int i = 0; i < 4; i++)
        paint(c, ellipse(p - vec2(-0.06 + 0.04 * float(i), 0.004), vec2(0.018, 0.014)), vec3(0.75, 0.48, 0.16));
    const vec2 head = turn(p - vec2(0.0, 0.335), -0.06 * listen - 0.03 * sin(time * 0.7));
    paint(c, spike(turn(head - vec2(-0.105, 0.060), -0.38), 0.042, 0.105), dark);
    paint(c, spike(turn(head - vec2(0.105, 0.060), 0.38), 0.042, 0.105), dark);
    paint(c, ellipse(head, vec2(0.155, 0.122)), brown);
    const vec2 side = vec2(abs(head.x) - 0.062, head.y - 0.008);
    paint(c, length(side) - 0.067, pale);
    const vec2 from_eye = head - vec2(head.x < 0.0 ? -0.062 : 0.062, 0.008);
    eye(c, from_eye, 0.043, vec3(1.0, 0.78, 0.20), blinking(0.1), vec2(0.7, -0.1 + 0.2 * listen));
    paint(c, spike((head - vec2(0.0, -0.018)) * vec2(1.0, -1.0), 0.020, 0.038), vec3(0.86, 0.56, 0.18));
    paint(c, ellipse(head - vec2(0.0, -0.052 - 0.010 * open), vec2(0.013, 0.002 + 0.014 * open)), vec3(0.25, 0.07, 0.07));
}

void fox_head(inout vec3 c, vec2 head, vec3 fur, vec3 white, float open, float listen)
{
    for (float s = -1.0; s < 2.0; s += 2.0) {
        const vec2 ear = turn(head - vec2(0.095 * s, 0.055), 0.24 * s);
        paint(c, spike(ear, 0.052, 0.125), fur * 0.92);
        paint(c, spike(ear - vec2(0.0, 0.012), 0.028, 0.080), vec3(0.10, 0.06, 0.07));
    }
    paint(c, ellipse(head, vec2(0.150, 0.105)), fur);
    paint(c, spike(vec2(head.x, -(head.y + 0.02)), 0.125, 0.135), fur);
    const vec2 cheek = vec2(abs(head.x) - 0.088, head.y + 0.040);
    paint(c, ellipse(turn(cheek, 0.55), vec2(0.062, 0.036)), white);
    paint(c, ellipse(head - vec2(0.0, -0.078 - 0.010 * open), vec2(0.032, 0.024 + 0.008 * open)), white);
    paint(c, ellipse(head - vec2(0.0, -0.094 - 0.008 * open), vec2(0.019, 0.001 + 0.017 * open)), vec3(0.30, 0.07, 0.08));
    paint(c, ellipse(head - vec2(0.0, -0.066), vec2(0.021, 0.015)), vec3(0.04));
    const vec2 from_eye = head - vec2(head.x < 0.0 ? -0.058 : 0.058, 0.012);
    eye(c, from_eye, 0.024, vec3(0.98, 0.86, 0.55), blinking(0.6), vec2(-0.7, 0.2 * listen));
}

void fox(inout vec3 c, vec2 p, float open, float listen)
{
    const vec3 fur = lit(vec3(0.92, 0.42, 0.13), p - vec2(0.0, 0.3), -1.0);
    const vec3 white = 1.35 * lit(vec3(0.98, 0.92, 0.84), p - vec2(0.0, 0.3), -1.0);
    paint(c, ellipse(p - vec2(0.0, 0.005), vec2(0.250, 0.080)), lit(vec3(0.30, 0.30, 0.36), p, -1.0));
    paint(c, ellipse(p - vec2(0.02, 0.030), vec2(0.215, 0.052)), lit(vec3(0.40, 0.40, 0.46), p, -1.0));
    p.y -= 0.055 + 0.003 * sin(time * 2.3);
    const vec2 tail = turn(p - vec2(0.185, 0.120), -0.50 + 0.10 * sin(time * 1.1));
    paint(c, ellipse(tail, vec2(0.070, 0.175)), fur * 0.92);
    paint(c, max(ellipse(tail, vec2(0.070, 0.175)), 0.075 - tail.y + 0.012 * sin(tail.x * 120.0)), white);
    paint(c, ellipse(p - vec2(0.035, 0.120), vec2(0.135, 0.145)), fur);
    paint(c, ellipse(p - vec2(-0.015, 0.160), vec2(0.090, 0.150)), fur);
    paint(c, ellipse(p - vec2(-0.028, 0.165), vec2(0.058, 0.110)), white);
    for (int i = 0; i < 2; i++) {
        const vec2 leg = p - vec2(-0.070 + 0.075 * float(i), 0.060);
        paint(c, box(leg, vec2(0.024, 0.072), 0.02), fur * 0.95);
        paint(c, ellipse(leg - vec2(-0.006, -0.068), vec2(0.032, 0.018)), vec3(0.10, 0.07, 0.08));
    }
    fox_head(c, turn(p - vec2(-0.020, 0.335), 0.06 * listen + 0.03 * sin(time * 0.9)), fur, white, open, listen);
}

void main()
{
    const vec2 p = vec2(gl_FragCoord.x - 0.5 * size.x, 0.5 * size.y - gl_FragCoord.y) / unit();
    vec3 c;
    if (p.y > waterline)
        c = far_shore(p - vec2(0.0, waterline));
    else
        c = lake(p);
    c = mix(c, vec3(0.20, 0.20, 0.34), 0.30 * exp2(-abs(p.y - waterline) * 32.0)); // mist on the water
    meadow(c, p);
    if (length(p - lamp_place - vec2(0.0, 0.11)) < 0.9) lamp(c, p - lamp_place);
    if (length(p - owl_place - vec2(0.0, 0.28)) < 0.48) owl(c, p - owl_place, talk.x, look.x);
    if (length(p - fox_place - vec2(0.0, 0.28)) < 0.48) fox(c, p - fox_place, talk.y, look.y);
    const vec2 q = gl_FragCoord.xy / size - 0.5;
    c *= 1.0 - 0.55 * dot(q, q);
    c += (hash(gl_FragCoord.xy) - 0.5) / 255.0; // no bands in the dark sky
    result = vec4(c, 1.0);
}
