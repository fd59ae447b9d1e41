/* Writes the files that fuzzing of the GGUF reader starts from: seed_gguf FOLDER. */
#include <stdio.h>
#include <stdlib.h>

#include "file/format.h"
#include "support/gguf_writer.h"

static gguf_writer *every_type(void)
{
    gguf_writer *w = gguf_writer_new();
    gguf_put_u8(w, "u8", 1);
    gguf_put_i8(w, "i8", -1);
    gguf_put_u16(w, "u16", 1);
    gguf_put_i16(w, "i16", -1);
    gguf_put_u32(w, "u32", 1);
    gguf_put_i32(w, "i32", -1);
    gguf_put_u64(w, "u64", 1);
    gguf_put_i64(w, "i64", -1);
    gguf_put_f32(w, "f32", 1);
    gguf_put_f64(w, "f64", 1);
    gguf_put_bool(w, "bool", true);
    gguf_put_string(w, "string", "text");
    return w;
}

static gguf_writer *arrays(void)
{
    gguf_writer *w = gguf_writer_new();
    gguf_put_strings(w, "tokenizer.ggml.tokens", 3, (const char *[]){"a", "", "abc"});
    gguf_put_i32s(w, "i32s", 2, (int32_t[]){1, -1});
    gguf_put_f32s(w, "f32s", 2, (float[]){1, -1});
    gguf_put_bools(w, "bools", 2, (bool[]){true, false});
    gguf_put_array(w, "f64s", 12, 1, (double[]){1}, 8);
    return w;
}

static gguf_writer *tensors(void)
{
    gguf_writer *w = gguf_writer_new();
    gguf_writer_set_alignment(w, 8);
    for (int f = 0; f < VKI_FORMAT_COUNT; f++) {
        const vki_format_info *info = vki_format_get((vki_format)f);
        const uint64_t ne[2] = {info->block_weights, 2};
        gguf_put_tensor(w, info->name, info->ggml_id, 2, ne, NULL, 2 * info->block_bytes);
    }
    return w;
}

static gguf_writer *split(void)
{
    gguf_writer *w = gguf_writer_new();
    gguf_put_u16(w, "split.no", 0);
    gguf_put_u16(w, "split.count", 2);
    gguf_put_i32(w, "split.tensors.count", 1);
    gguf_put_tensor(w, "w", 0, 0, NULL, NULL, 4);
    return w;
}

int main(int argc, char **argv)
{
    gguf_writer *(*const makers[])(void) = {gguf_writer_new, every_type, arrays, tensors, split};
    if (argc != 2) {
        fprintf(stderr, "usage: seed_gguf FOLDER\n");
        return EXIT_FAILURE;
    }
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/seed-%zu.gguf", argv[1], i);
        gguf_writer *w = makers[i]();
        const bool saved = gguf_writer_save(w, path);
        gguf_writer_free(w);
        if (saved) continue;
        fprintf(stderr, "%s: cannot be written\n", path);
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
