/* sample_args.h - command lines by table: what is parsed and what --help prints are the same rows.
 *
 * An option is given as `--name VALUE`, `--name=VALUE` or `-x VALUE`. -h, --help and --version are
 * there in every program. Programs take no positional arguments.
 */
#ifndef SAMPLE_ARGS_H
#define SAMPLE_ARGS_H

#include <stddef.h>
#include <stdint.h>

#if defined(__clang__)
#define SAMPLE_PRINTF(text_at, values_at) __attribute__((format(printf, text_at, values_at)))
#elif defined(__GNUC__) /* C's own formats, also where the system's have others */
#define SAMPLE_PRINTF(text_at, values_at) __attribute__((format(gnu_printf, text_at, values_at)))
#else
#define SAMPLE_PRINTF(text_at, values_at)
#endif

typedef enum args_kind {
    ARGS_HEADING, /* a line of the help, not an option */
    ARGS_FLAG,    /* bool: set by its presence */
    ARGS_TEXT,    /* const char * */
    ARGS_INTEGER, /* int64_t within [least, most] */
    ARGS_REAL,    /* double within [least, most] */
    ARGS_CHOICE,  /* int: the index of the word in `value`, "f16|f32" */
    ARGS_LIST,    /* args_list: integers within [least, most], parted by commas */
    ARGS_TEXTS,   /* args_texts: one for each time that the option is given */
} args_kind;

typedef struct args_option {
    args_kind kind;
    const char *names; /* "-m, --model"; of a heading, its text */
    const char *value; /* the help's word for the value; NULL for a flag */
    void *target;      /* keeps its value, the default, where the option is not given */
    double least, most;
    const char *help;
} args_option;

#define ARGS_LIST_CAPACITY 32
typedef struct args_list {
    int64_t values[ARGS_LIST_CAPACITY];
    size_t count;
} args_list;

typedef struct args_texts {
    const char *values[ARGS_LIST_CAPACITY];
    size_t count;
} args_texts;

typedef struct args_program {
    const char *name;     /* "vklm-chat" */
    const char *purpose;  /* half a line */
    const char *synopsis; /* what follows the name */
    const char *about;    /* paragraphs of the help, printed as they are */
    const args_option *options;
    size_t n_options;
    const char *after; /* further sections of the help, printed as they are */
} args_program;

/* What args_parse returns where the program shall go on; else it returns the exit code. */
#define ARGS_GO (-1)

/* The exit code of a wrong command line, in every program; and what their help says of all codes. */
#define ARGS_USAGE 2
#define ARGS_EXIT_STATUS \
    "EXIT STATUS\n"      \
    "    0 success, 1 an error (its text says what helps), 2 a wrong command line"

/* Fills the targets. Prints help and version on stdout (returns 0), complaints on stderr (returns
 * ARGS_USAGE). */
int args_parse(const args_program *program, int argc, char **argv);

/* Complains of a command line on stderr and returns ARGS_USAGE. */
int args_complain(const char *program, const char *format, ...) SAMPLE_PRINTF(2, 3);

/* Reads integers parted by commas or blanks and hands each to `take`. Returns NULL, or the place in
 * `text` that is no integer within the bounds. */
const char *args_each_integer(const char *text, double least, double most,
                              void (*take)(void *user, int64_t value), void *user);

#endif
