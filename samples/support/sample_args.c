/* sample_args.c - the parser and the help printer of sample_args.h.
 *
 * Numbers are read whole ("12x" is refused) and checked against their row's bounds. The help is
 * laid out from the rows: names in a left column, the text wrapped in the right one.
 */
#include "sample_args.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vklm/vklm.h"

int args_complain(const char *program, const char *format, ...)
{
    fprintf(stderr, "%s: ", program);
    va_list values;
    va_start(values, format);
    vfprintf(stderr, format, values);
    va_end(values);
    fprintf(stderr, "\nTry '%s --help'.\n", program);
    return ARGS_USAGE;
}

/* ---- Values --------------------------------------------------------------------------------- */

static bool read_integer(const char *text, const char **end, double least, double most,
                         int64_t *value)
{
    char *stop = NULL;
    errno = 0;
    *value = strtoll(text, &stop, 10);
    *end = stop;
    return stop != text && errno == 0 && (double)*value >= least && (double)*value <= most;
}

static bool read_real(const char *text, double least, double most, double *value)
{
    char *stop = NULL;
    *value = strtod(text, &stop);
    return stop != text && *stop == '\0' && isfinite(*value) && *value >= least && *value <= most;
}

const char *args_each_integer(const char *text, double least, double most,
                              void (*take)(void *user, int64_t value), void *user)
{
    const char *at = text + strspn(text, " \t\n");
    do {
        const char *end = NULL;
        int64_t value = 0;
        if (!read_integer(at, &end, least, most, &value)) return at;
        const size_t gap = strspn(end, ", \t\n");
        if (gap == 0 && *end != '\0') return at;
        take(user, value);
        at = end + gap;
    } while (*at != '\0');
    return NULL;
}

static void take_into_list(void *user, int64_t value)
{
    args_list *list = user;
    if (list->count < ARGS_LIST_CAPACITY) list->values[list->count] = value;
    list->count++;
}

static bool read_list(const args_option *option, const char *text)
{
    args_list *list = option->target;
    list->count = 0;
    return args_each_integer(text, option->least, option->most, take_into_list, list) == NULL &&
           list->count <= ARGS_LIST_CAPACITY;
}

static bool add_text(args_texts *texts, const char *text)
{
    if (texts->count == ARGS_LIST_CAPACITY) return false;
    texts->values[texts->count++] = text;
    return true;
}

static bool read_choice(const char *words, const char *text, int *index)
{
    const size_t len = strlen(text);
    for (int i = 0;; i++) {
        const size_t word_len = strcspn(words, "|");
        if (word_len == len && memcmp(words, text, len) == 0) {
            *index = i;
            return true;
        }
        if (words[word_len] == '\0') return false;
        words += word_len + 1;
    }
}

/* Stores the value; false where it is none of the kind. */
static bool store(const args_option *option, const char *text)
{
    const char *end = NULL;
    switch (option->kind) {
    case ARGS_TEXT: *(const char **)option->target = text; return true;
    case ARGS_INTEGER:
        return read_integer(text, &end, option->least, option->most, option->target) &&
               *end == '\0';
    case ARGS_REAL: return read_real(text, option->least, option->most, option->target);
    case ARGS_CHOICE: return read_choice(option->value, text, option->target);
    case ARGS_LIST: return read_list(option, text);
    case ARGS_TEXTS: return add_text(option->target, text);
    case ARGS_HEADING:
    case ARGS_FLAG: break;
    }
    return false;
}

static int complain_of_value(const args_program *program, const args_option *option,
                             const char *text)
{
    const char *name = option->names;
    switch (option->kind) {
    case ARGS_CHOICE:
        return args_complain(program->name, "%s takes %s, not '%s'", name, option->value, text);
    case ARGS_LIST:
        return args_complain(
            program->name,
            "%s takes up to %d whole numbers from %.16g to %.16g parted by commas, "
            "not '%s'",
            name, ARGS_LIST_CAPACITY, option->least, option->most, text);
    case ARGS_TEXTS:
        return args_complain(program->name, "%s is given more than %d times", name, ARGS_LIST_CAPACITY);
    default:
        return args_complain(program->name, "%s takes a %snumber from %.16g to %.16g, not '%s'",
                             name, option->kind == ARGS_INTEGER ? "whole " : "", option->least,
                             option->most, text);
    }
}

/* ---- Help ----------------------------------------------------------------------------------- */

enum { HELP_INDENT = 4, HELP_COLUMN = 30, HELP_WIDTH = 96 };

/* Prints text in the right column; the cursor stands in column `at`. */
static void print_wrapped(const char *text, int at)
{
    while (*text != '\0') {
        const int len = (int)strcspn(text, " ");
        if (at > HELP_COLUMN && at + 1 + len > HELP_WIDTH) {
            printf("\n");
            at = 0;
        }
        if (at < HELP_COLUMN)
            at += printf("%*s", HELP_COLUMN - at, "");
        else if (at > HELP_COLUMN)
            at += printf(" ");
        at += printf("%.*s", len, text);
        text += len;
        text += strspn(text, " ");
    }
    printf("\n");
}

static void print_option(const args_option *option)
{
    if (option->kind == ARGS_HEADING) {
        printf("\n  %s:\n", option->names);
        return;
    }
    int at = printf("%*s%s%s%s", HELP_INDENT, "", option->names, option->value ? " " : "",
                    option->value ? option->value : "");
    if (at + 2 > HELP_COLUMN) {
        printf("\n");
        at = 0;
    }
    print_wrapped(option->help, at);
}

static void print_help(const args_program *program)
{
    printf("%s - %s\n\nSYNOPSIS\n    %s %s\n\nDESCRIPTION\n%s\nOPTIONS\n", program->name,
           program->purpose, program->name, program->synopsis, program->about);
    for (size_t i = 0; i < program->n_options; i++) print_option(&program->options[i]);
    const args_option always[] = {
        {ARGS_FLAG, "-h, --help", NULL, NULL, 0, 0, "Print this text and leave."},
        {ARGS_FLAG, "--version", NULL, NULL, 0, 0, "Print the version and leave."},
    };
    for (size_t i = 0; i < sizeof always / sizeof *always; i++) print_option(&always[i]);
    printf("\n%s", program->after);
}

static void print_version(const args_program *program)
{
    const unsigned version = vklm_version();
    printf("%s %u.%u.%u\n", program->name, version / 10000, version / 100 % 100, version % 100);
}

/* ---- Parsing -------------------------------------------------------------------------------- */

/* Whether `given` (len bytes) is one of names, "-m, --model". */
static bool is_named(const char *names, const char *given, size_t len)
{
    for (;;) {
        const size_t name_len = strcspn(names, ",");
        if (name_len == len && memcmp(names, given, len) == 0) return true;
        if (names[name_len] == '\0') return false;
        names += name_len + 2; /* past ", " */
    }
}

static const args_option *find_option(const args_program *program, const char *given, size_t len)
{
    for (size_t i = 0; i < program->n_options; i++) {
        const args_option *option = &program->options[i];
        if (option->kind != ARGS_HEADING && is_named(option->names, given, len)) return option;
    }
    return NULL;
}

/* Takes the option at argv[*index], and its value; *index moves behind it. */
static int parse_one(const args_program *program, char **argv, int *index)
{
    const char *given = argv[(*index)++];
    if (given[0] != '-')
        return args_complain(program->name, "'%s' belongs to no option; quote a value with blanks",
                             given);
    const size_t name_len = given[1] == '-' ? strcspn(given, "=") : strlen(given);
    const args_option *option = find_option(program, given, name_len);
    if (!option) return args_complain(program->name, "there is no option '%s'", given);
    const char *value = given[name_len] == '=' ? given + name_len + 1 : NULL;
    if (option->kind == ARGS_FLAG) {
        if (value) return args_complain(program->name, "'%s': the option takes no value", given);
        *(bool *)option->target = true;
        return ARGS_GO;
    }
    if (!value) value = argv[*index] ? argv[(*index)++] : NULL;
    if (!value) return args_complain(program->name, "%s needs a value: %s", given, option->value);
    if (store(option, value)) return ARGS_GO;
    return complain_of_value(program, option, value);
}

int args_parse(const args_program *program, int argc, char **argv)
{
    for (int i = 1; i < argc;) {
        if (strcmp(argv[i], "-h") == 0 || strcmp(argv[i], "--help") == 0) {
            print_help(program);
            return 0;
        }
        if (strcmp(argv[i], "--version") == 0) {
            print_version(program);
            return 0;
        }
        const int result = parse_one(program, argv, &i);
        if (result != ARGS_GO) return result;
    }
    return ARGS_GO;
}
