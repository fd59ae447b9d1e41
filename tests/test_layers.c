/* test_layers.c - the project's own rules, checked on its source tree (VKLM_SOURCE_DIR).
 *
 * Layers include to the left only; sizes stay readable; file names are unique; the library ends no
 * process, prints nothing, reads no environment and allocates in one place; README.md names what a
 * user can build and run. The rules read text, not C: a file is lines, a function starts at a "{"
 * and ends at a "}" in the first column.
 */
#define _POSIX_C_SOURCE 200809L
#include <check.h>
#include <dirent.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "support/suite.h"

enum { MAX_FILES = 1000, MAX_PATH = 512, MAX_LINE = 1000 };
enum {
    MAX_LIBRARY_LINES = 17400, /* a third of it tables and checks of files */
    MAX_SHADER_LINES = 3000,
    MAX_FILE_LINES = 700,
    MAX_FUNCTION_LINES = 120
};

typedef struct source {
    char path[MAX_PATH]; /* relative to the tree: "src/base/os.c" */
    char *text;
    unsigned n_lines;
} source;

static source files[MAX_FILES];
static size_t n_files;
static unsigned n_faults;

static void fault(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    vfprintf(stderr, format, values);
    va_end(values);
    fputc('\n', stderr);
    n_faults++;
}

/* ---- The tree ----------------------------------------------------------------------------------
 */

static char *read_text(const char *path)
{
    char full[2 * MAX_PATH];
    snprintf(full, sizeof full, "%s/%s", VKLM_SOURCE_DIR, path);
    FILE *file = fopen(full, "rb");
    if (!file) return NULL;
    fseek(file, 0, SEEK_END);
    const long size = ftell(file);
    rewind(file);
    char *text = calloc((size_t)size + 1, 1);
    ck_assert_uint_eq(fread(text, 1, (size_t)size, file), (size_t)size);
    fclose(file);
    return text;
}

static bool has_suffix(const char *path, const char *suffixes)
{
    const char *dot = strrchr(path, '.');
    const size_t len = dot ? strlen(dot) : 0;
    for (const char *at = suffixes; len && (at = strstr(at, dot)); at += len)
        if (at[len] == ' ' || !at[len]) return true;
    return false;
}

static void add_file(const char *path)
{
    if (!has_suffix(path, ".c .h .cpp .comp .glsl .cmake .txt .in .sh")) return;
    ck_assert_uint_lt(n_files, MAX_FILES);
    source *file = &files[n_files++];
    snprintf(file->path, sizeof file->path, "%s", path);
    file->text = read_text(path);
    ck_assert_ptr_nonnull(file->text);
    for (const char *c = file->text; *c; c++) file->n_lines += *c == '\n';
}

static void add_folder(const char *folder)
{
    char path[2 * MAX_PATH];
    snprintf(path, sizeof path, "%s/%s", VKLM_SOURCE_DIR, folder);
    DIR *entries = opendir(path);
    ck_assert_msg(entries, "%s cannot be read", path);
    for (struct dirent *entry; (entry = readdir(entries));) {
        if (entry->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s/%s", VKLM_SOURCE_DIR, folder, entry->d_name);
        struct stat about;
        ck_assert_int_eq(stat(path, &about), 0);
        const char *relative = path + strlen(VKLM_SOURCE_DIR) + 1;
        if (S_ISDIR(about.st_mode)) {
            add_folder(relative);
        } else if (strcmp(folder, "tests/data") != 0) {
            add_file(relative);
        }
    }
    closedir(entries);
}

static void forget_faults(void)
{
    n_faults = 0;
}

static void read_tree(void)
{
    static const char *const folders[] = {"include", "src",   "shaders",
                                          "samples", "tests", "third_party"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) add_folder(folders[i]);
    add_file("CMakeLists.txt");
}

static void free_tree(void)
{
    while (n_files > 0) free(files[--n_files].text);
}

static bool under(const source *file, const char *folder)
{
    const size_t len = strlen(folder);
    return strncmp(file->path, folder, len) == 0 && file->path[len] == '/';
}

/* Takes the next line from *text; false at the end. */
static bool next_line(const char **text, char line[MAX_LINE])
{
    if (!**text) return false;
    const size_t len = strcspn(*text, "\n");
    snprintf(line, MAX_LINE, "%.*s", (int)len, *text);
    *text += len + ((*text)[len] == '\n');
    return true;
}

/* ---- Layers ------------------------------------------------------------------------------------
 */

typedef struct layer {
    const char *name, *sees,
        *outside; /* words; headers outside the tree begin with one of `outside` */
} layer;

static const layer layers[] = {
    {"base", "base vklm", ""},
    {"file", "file base vklm", ""},
    {"text", "text file base vklm", "pcre2"},
    {"gpu", "gpu base vklm", "volk vulkan glslang"},
    {"kernel", "kernel gpu file base vklm lib", ""},
    {"model", "model kernel gpu text file base vklm lib", ""},
    {"run", "run model kernel gpu text file base vklm lib", ""},
};

static bool has_word(const char *words, const char *word, size_t len)
{
    for (const char *at = words; *at; at += strcspn(at, " "), at += *at == ' ')
        if (strcspn(at, " ") == len && strncmp(at, word, len) == 0) return true;
    return false;
}

/* What C11 itself brings; anything else in <> is a dependency or the operating system's. */
static const char standard[] =
    "assert ctype errno float inttypes limits locale math signal stdalign stdarg "
    "stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string time uchar";

static void check_include(const source *file, const layer *layer, const char *line)
{
    char open, header[MAX_LINE];
    if (sscanf(line, " # include %c%[^\">]", &open, header) != 2 &&
        sscanf(line, "#include %c%[^\">]", &open, header) != 2)
        return;
    if (open == '"') {
        const size_t len = strcspn(header, "/");
        const bool generated = strcmp(file->path, "src/gpu/vulkan.h") == 0;
        if (!(header[len] && has_word(layer->sees, header, len)) && !generated)
            fault("%s: layer %s must not include \"%s\"", file->path, layer->name, header);
        return;
    }
    const size_t len = strcspn(header, "./");
    if (has_word(standard, header, len) || has_word(layer->outside, header, len)) return;
    if (strcmp(file->path, "src/base/os.c") != 0)
        fault("%s: layer %s must not include <%s>", file->path, layer->name, header);
}

START_TEST(layers_include_to_the_left_only)
{
    size_t n_seen = 0;
    for (size_t f = 0; f < n_files; f++)
        for (size_t l = 0; l < sizeof layers / sizeof *layers; l++) {
            char folder[MAX_PATH], line[MAX_LINE];
            snprintf(folder, sizeof folder, "src/%s", layers[l].name);
            if (!under(&files[f], folder)) continue;
            n_seen++;
            for (const char *text = files[f].text; next_line(&text, line);)
                check_include(&files[f], &layers[l], line);
        }
    for (size_t f = 0; f < n_files; f++) n_seen -= under(&files[f], "src");
    ck_assert_msg(n_seen == 0, "src/ holds files of no layer");
    ck_assert_uint_eq(n_faults, 0);
}
END_TEST

/* ---- Sizes -------------------------------------------------------------------------------------
 */

START_TEST(sizes_stay_readable)
{
    unsigned library = 0, shaders = 0;
    for (size_t f = 0; f < n_files; f++) {
        const source *file = &files[f];
        if (under(file, "include") || under(file, "src")) library += file->n_lines;
        if (under(file, "shaders") && has_suffix(file->path, ".comp .glsl .h"))
            shaders += file->n_lines;
        if (file->n_lines > MAX_FILE_LINES)
            fault("%s: %u lines, more than %d", file->path, file->n_lines, MAX_FILE_LINES);
    }
    if (library > MAX_LIBRARY_LINES)
        fault("include and src: %u lines, more than %d", library, MAX_LIBRARY_LINES);
    if (shaders > MAX_SHADER_LINES)
        fault("shaders: %u lines, more than %d", shaders, MAX_SHADER_LINES);
    ck_assert_uint_eq(n_faults, 0);
}
END_TEST

START_TEST(functions_stay_short)
{
    for (size_t f = 0; f < n_files; f++) {
        if (!has_suffix(files[f].path, ".c .h .cpp .comp .glsl")) continue;
        char line[MAX_LINE];
        unsigned number = 0, start = 0;
        for (const char *text = files[f].text; next_line(&text, line);) {
            number++;
            if (strcmp(line, "{") == 0) start = number;
            if (line[0] != '}' || !start) continue;
            if (number - start + 1 > MAX_FUNCTION_LINES)
                fault("%s:%u: a function of %u lines, more than %d", files[f].path, start,
                      number - start + 1, MAX_FUNCTION_LINES);
            start = 0;
        }
    }
    ck_assert_uint_eq(n_faults, 0);
}
END_TEST

static const char *file_name(const source *file)
{
    const char *slash = strrchr(file->path, '/');
    return slash ? slash + 1 : file->path;
}

START_TEST(file_names_are_unique)
{
    for (size_t a = 0; a < n_files; a++)
        for (size_t b = 0; b < a; b++)
            if (strcmp(file_name(&files[a]), file_name(&files[b])) == 0 &&
                strcmp(file_name(&files[a]), "CMakeLists.txt") != 0)
                fault("%s and %s have the same name", files[a].path, files[b].path);
    ck_assert_uint_eq(n_faults, 0);
}
END_TEST

/* ---- What the library does not do ---------------------------------------------------------------
 */

static bool is_name(char c)
{
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

/* Overwrites comments with blanks, so that prose may name what code must not call. */
static void blank_comments(char *text)
{
    for (char *at = text; (at = strpbrk(at, "/\""));) {
        char *end = at + 1;
        if (*at == '"') {
            while (*end && *end != '"') end += *end == '\\' && end[1] ? 2 : 1;
            at = *end ? end + 1 : end;
            continue;
        }
        if (at[1] == '*') {
            end = strstr(at + 2, "*/");
            end = end ? end + 2 : at + strlen(at);
        } else if (at[1] == '/') {
            end = at + strcspn(at, "\n");
        } else {
            at++;
            continue;
        }
        for (; at < end; at++)
            if (*at != '\n') *at = ' ';
    }
}

static void forbid_words(const source *file, const char *code, const char *words, bool calls,
                         const char *why)
{
    char word[MAX_LINE];
    for (int used = 0; sscanf(words, "%s%n", word, &used) == 1; words += used) {
        const size_t len = strlen(word);
        for (const char *at = code; (at = strstr(at, word)); at += len) {
            const bool whole = !is_name(at[len]) && (at == code || !is_name(at[-1]));
            const bool member = at > code && (at[-1] == '.' || at[-1] == '>');
            if (whole && !member && (!calls || at[len + strspn(at + len, " ")] == '('))
                fault("%s: %s, %s", file->path, word, why);
        }
    }
}

START_TEST(the_library_leaves_the_process_alone)
{
    for (size_t f = 0; f < n_files; f++) {
        const source *file = &files[f];
        if (!under(file, "src")) continue;
        char *code = read_text(file->path);
        blank_comments(code);
        forbid_words(file, code, "abort exit _exit _Exit quick_exit atexit raise signal", true,
                     "but the library ends no process");
        forbid_words(file, code, "printf fprintf vprintf vfprintf puts fputs putchar fputc perror",
                     true, "but the library prints nothing");
        forbid_words(file, code, "getenv secure_getenv setenv putenv setlocale system", true,
                     "but the library has no environment");
        forbid_words(file, code, "thrd_create fork", true, "but the library starts nothing so");
        if (strcmp(file->path, "src/base/os.c") != 0)
            forbid_words(file, code, "pthread_create CreateThread", true,
                         "but threads start in base/os.c only");
        if (strcmp(file->path, "src/base/host.c") != 0)
            forbid_words(file, code, "malloc calloc realloc free strdup alloca", true,
                         "but memory comes from base/host.h");
        if (strcmp(file->path, "src/base/os.c") != 0)
            forbid_words(file, code, "_WIN32 __linux__ __APPLE__ __unix__ _MSC_VER", false,
                         "but platforms differ in base/os.c only");
        free(code);
    }
    ck_assert_uint_eq(n_faults, 0);
}
END_TEST

START_TEST(nothing_is_marked_as_unfinished)
{
    /* In halves, so that this file passes. */
    static const char marks[] = "TO"
                                "DO FIX"
                                "ME XX"
                                "X HA"
                                "CK st"
                                "ub";
    for (size_t f = 0; f < n_files; f++) {
        forbid_words(&files[f], files[f].text, marks, false, "a mark of unfinished work");
        if (strstr(files[f].text, "not "
                                  "implemented"))
            fault("%s: says it is unfinished", files[f].path);
    }
    ck_assert_uint_eq(n_faults, 0);
}
END_TEST

/* ---- README -------------------------------------------------------------------------------------
 */

static void expect_mention(const char *readme, const char *what)
{
    if (!strstr(readme, what)) fault("README.md does not mention %s", what);
}

START_TEST(readme_mentions_what_there_is)
{
    char *readme = read_text("README.md");
    ck_assert_ptr_nonnull(readme);
    for (size_t f = 0; f < n_files; f++) {
        char line[MAX_LINE], name[MAX_LINE];
        if (strcmp(files[f].path, "CMakeLists.txt") == 0)
            for (const char *text = files[f].text; next_line(&text, line);)
                if (sscanf(line, "option(%[A-Z_]", name) == 1) expect_mention(readme, name);
        /* samples/NAME.c or samples/NAME/... makes vklm-NAME. */
        if (!under(&files[f], "samples") || !has_suffix(files[f].path, ".c")) continue;
        if (sscanf(files[f].path, "samples/%[^/.]", name) != 1 || strcmp(name, "support") == 0)
            continue;
        snprintf(line, sizeof line, "vklm-%.100s", name);
        expect_mention(readme, line);
    }
    expect_mention(readme, "samples/try.sh");
    expect_mention(readme, "samples/get-model.sh");
    expect_mention(readme, "tests/run.sh");
    free(readme);
    ck_assert_uint_eq(n_faults, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("layers");
    TCase *tree = add_case(suite, "tree", forget_faults, NULL);
    tcase_add_unchecked_fixture(tree, read_tree, free_tree);
    tcase_add_test(tree, layers_include_to_the_left_only);
    tcase_add_test(tree, sizes_stay_readable);
    tcase_add_test(tree, functions_stay_short);
    tcase_add_test(tree, file_names_are_unique);
    tcase_add_test(tree, the_library_leaves_the_process_alone);
    tcase_add_test(tree, nothing_is_marked_as_unfinished);
    tcase_add_test(tree, readme_mentions_what_there_is);
    return run_suite(suite);
}
