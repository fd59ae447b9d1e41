/* vklm-tokens - text from stdin to token ids, and back. Needs no GPU; vocabulary-only files will
 * do.
 *
 * Exit codes: 0 done; 1 failure (the file, the ids, memory), said on stderr; 2 wrong usage.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef _WIN32
#include <fcntl.h>
#include <io.h>
#endif

#include "vklm/vklm.h"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

static const char usage[] =
    "usage: vklm-tokens -m MODEL [--bos] [--special] < TEXT     prints the ids on one line\n"
    "       vklm-tokens -m MODEL --decode [--special] < IDS     prints the text, byte for byte\n"
    "  -m MODEL    a GGUF file with a tokenizer\n"
    "  --bos       add the begin and end tokens that the file asks for\n"
    "  --special   read control tokens such as <|im_end|> in the text; with --decode, show them\n"
    "  --decode    ids, parted by blanks or commas, to text\n";

typedef struct options {
    const char *model;
    bool bos, special, decode;
} options;

static bool parse(int argc, char **argv, options *given)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-m") == 0 && i + 1 < argc)
            given->model = argv[++i];
        else if (strcmp(argv[i], "--bos") == 0)
            given->bos = true;
        else if (strcmp(argv[i], "--special") == 0)
            given->special = true;
        else if (strcmp(argv[i], "--decode") == 0)
            given->decode = true;
        else
            return false;
    }
    return given->model && !(given->decode && given->bos);
}

static int fail(const char *what)
{
    fprintf(stderr, "vklm-tokens: %s\n", what);
    return EXIT_FAILED;
}

/* All of stdin, with a zero byte behind it. NULL: no memory, or a read error. */
static char *read_all(size_t *len_out)
{
    char *bytes = NULL;
    size_t len = 0, capacity = 0;
    for (;;) {
        if (len + 1 >= capacity) {
            capacity = capacity ? 2 * capacity : 1 << 16;
            char *more = realloc(bytes, capacity);
            if (!more) break;
            bytes = more;
        }
        const size_t n = fread(bytes + len, 1, capacity - len - 1, stdin);
        len += n;
        if (n > 0) continue;
        if (ferror(stdin)) break;
        bytes[len] = '\0';
        *len_out = len;
        return bytes;
    }
    free(bytes);
    return NULL;
}

static int encode(const vklm_vocab *vocab, const options *given, const char *text, size_t len)
{
    const unsigned flags =
        (given->bos ? VKLM_ADD_SPECIAL : 0u) | (given->special ? VKLM_PARSE_SPECIAL : 0u);
    vklm_error error;
    size_t n;
    /* A byte becomes at most three tokens (U+FFFD for a bad one), and bos, eos and a space come on
     * top. */
    const size_t capacity = 3 * len + 3;
    vklm_token *ids = malloc(capacity * sizeof *ids);
    if (!ids) return fail("no memory for the ids");
    const vklm_status status = vklm_tokenize(vocab, text, len, flags, &error, ids, capacity, &n);
    for (size_t i = 0; status == VKLM_OK && i < n; i++) printf(i ? " %d" : "%d", (int)ids[i]);
    free(ids);
    if (status != VKLM_OK) return fail(error.text);
    putchar('\n');
    return EXIT_DONE;
}

/* Ids from text, in place of nothing smaller: the caller's array has room for one id per two bytes.
 */
static bool parse_ids(const char *text, size_t len, vklm_token *ids, size_t *n_out)
{
    const char *end = text + len;
    *n_out = 0;
    for (;;) {
        text += strspn(text, " \t\r\n,");
        if (text == end) return true;
        char *behind;
        errno = 0;
        const long id = strtol(text, &behind, 10);
        if (behind == text || errno || id < 0 || id > INT32_MAX) return false;
        if (behind != end && !strchr(" \t\r\n,", *behind)) return false;
        ids[(*n_out)++] = (vklm_token)id;
        text = behind;
    }
}

static int decode(const vklm_vocab *vocab, bool show_special, const char *list, size_t list_len)
{
    int code = EXIT_FAILED;
    char *text = NULL;
    size_t n, len;
    vklm_error error;
    vklm_token *ids = malloc((list_len / 2 + 1) * sizeof *ids);
    if (!ids) return fail("no memory for the ids");
    if (!parse_ids(list, list_len, ids, &n)) {
        fail("stdin holds something else than ids parted by blanks or commas");
        goto done;
    }
    vklm_status status = vklm_detokenize(vocab, ids, n, show_special, &error, NULL, 0, &len);
    if (status == VKLM_BUFFER_TOO_SMALL) {
        text = malloc(len);
        if (!text) {
            fail("no memory for the text");
            goto done;
        }
        status = vklm_detokenize(vocab, ids, n, show_special, &error, text, len, &len);
    }
    if (status == VKLM_OK) {
        if (text) fwrite(text, 1, len, stdout);
        code = EXIT_DONE;
    } else {
        fail(error.text);
    }
done:
    free(text);
    free(ids);
    return code;
}

static void warn(void *user, vklm_log_level level, const char *line)
{
    (void)user;
    if (level == VKLM_LOG_WARNING) fprintf(stderr, "vklm-tokens: %s\n", line);
}

int main(int argc, char **argv)
{
    options given = {0};
    if (!parse(argc, argv, &given)) {
        fputs(usage, stderr);
        return EXIT_USAGE;
    }
#ifdef _WIN32
    _setmode(_fileno(stdin), _O_BINARY);
    _setmode(_fileno(stdout), _O_BINARY);
#endif
    const vklm_vocab_params params = {
        .struct_size = sizeof params, .path = given.model, .log = {.write = warn}};
    vklm_error error;
    vklm_vocab *vocab;
    if (vklm_vocab_open(&params, &error, &vocab) != VKLM_OK) return fail(error.text);
    size_t len;
    char *input = read_all(&len);
    int code;
    if (!input)
        code = fail("stdin cannot be read");
    else
        code = given.decode ? decode(vocab, given.special, input, len)
                            : encode(vocab, &given, input, len);
    free(input);
    vklm_vocab_destroy(&vocab);
    if (fflush(stdout) != 0 && code == EXIT_DONE) code = fail("stdout cannot be written");
    return code;
}
