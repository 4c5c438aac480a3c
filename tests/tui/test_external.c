/* Files saved for the user: complete or not at all, and never over an existing file. */
#include "tests/test.h"

#include <signal.h>

#include <sys/resource.h>
#include <sys/stat.h>

#include "base/file.h"
#include "cli/control/edit_folder.h"
#include "cli/control/external.h"

TEST(test_save)
{
    static const char text[] = "said\n";
    const char *path = write_text(path_in(folder_new(), "saved"), "");
    struct rlimit before, cut;
    AUTO_STR found = {0};
    struct stat st;
    refused(external_save(path, text, sizeof text - 1, &err), ERR_FAIL, "File exists");
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, 0);
    assert_int_equal(unlink(path), 0);

    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    cut = (struct rlimit){3, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &cut), 0);
    int rc = external_save(path, text, sizeof text - 1, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(rc, ERR_FAIL);
    assert_non_null(strstr(err.text, "File too large"));
    assert_int_equal(access(path, F_OK), -1);

    ok(external_save(path, text, sizeof text - 1, &err));
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    ok(file_read(path, FILE_DATA, &found, &err));
    assert_string_equal(found.data, text);
}

/* What is sent for `text` in the folder; NULL: the error. */
static void sends(const char *text, const char *wanted)
{
    AUTO_STR out = {0};
    int rc = external_message(text, strlen(text), &out, &err);
    if (!rc && wanted) assert_string_equal(str_get(&out), wanted);
    assert_int_equal(rc != 0, wanted == NULL);
    if (rc) assert_true(out.n == 0 && strstr(err.text, "there is no file"));
}

#define NOTES "```notes.txt\nalpha\n```\n\n"

TEST(test_files_in_a_message)
{
    char was[512];
    struct str out = {0};
    assert_non_null(getcwd(was, sizeof was));
    assert_int_equal(chdir(folder_new()), 0);
    write_text("notes.txt", "alpha\n");
    write_text("two words.md", "a\n````\nb");
    write_text("Makefile", "all:\n");
    sends("What is in @notes.txt?", NOTES "What is in @notes.txt?");
    sends("@notes.txt", NOTES "@notes.txt");
    sends("(@notes.txt) @\"notes.txt\", @notes.txt",
          NOTES "(@notes.txt) @\"notes.txt\", @notes.txt");
    sends("see @\"two words.md\" now",
          "`````two words.md\na\n````\nb\n`````\n\nsee @\"two words.md\" now");
    sends("@Makefile", "```./Makefile\nall:\n```\n\n@Makefile");
    sends(NOTES "again: @notes.txt", NOTES "again: @notes.txt"); /* edited, and sent again */
    sends("me@notes.txt @anna @ @@notes.txt", "me@notes.txt @anna @ @notes.txt");
    sends("```\n@notes.txt\n```", "```\n@notes.txt\n```");
    sends("@app.route('/')", "@app.route('/')");
    sends("Why?\n@pytest.fixture\ndef x():", "Why?\n@pytest.fixture\ndef x():");
    sends("@a.b\n  @functools.cache\n  async def x()", "@a.b\n  @functools.cache\n  async def x()");
    sends("@missing.txt\nWhat defines class?", NULL);
    sends("What is in @missing.txt?", NULL);
    sends("What is in @sub/missing", NULL);
    ok(external_attach("notes.txt How long?", &out, &err));
    assert_string_equal(out.data, NOTES "How long?");
    str_release(&out);
    assert_int_equal(external_attach("missing How long?", &out, &err), ERR_FAIL);
    assert_int_equal(mkfifo("pipe", 0600), 0); /* nothing waits for a writer */
    assert_int_equal(external_attach("pipe", &out, &err), ERR_FAIL);
    sends("@pipe", "@pipe");
    assert_int_equal(chdir(was), 0);
}

/* A killed program's message is removed at the next start; one that is being edited is not. */
TEST(test_edit_folders)
{
    const char *base = folder_new(), *left = path_in(base, "retain/edit-left");
    char command[160];
    AUTO_STR text = {0};
    setenv("XDG_STATE_HOME", base, 1);
    edit_folders_clean(); /* there is no folder yet, and none is made */
    assert_int_equal(rmdir(base), 0);
    write_text(path_in(left, ".message.md.swp"), "");
    struct edit_folder used;
    ok(edit_folder_make(&used, false, &err));
    edit_folders_clean();
    assert_int_equal(access(left, F_OK), -1);
    assert_int_equal(access(used.path.data, F_OK), 0);
    edit_folder_remove(&used);

    setenv("VISUAL", "f() { echo changed >\"$1\"; cp \"$1\" \"$1~\"; }; f", 1);
    str_puts(&text, "a message");
    ok(external_edit(&text, false, -1, -1, &err));
    assert_string_equal(str_get(&text), "changed");
    /* A secret one is in memory meanwhile: neither the text nor a backup was below the folder. */
    setenv("XDG_RUNTIME_DIR", base, 1);
    setenv("VISUAL", "f() { ls \"$XDG_STATE_HOME/retain\" >\"$1\"; }; f", 1);
    ok(external_edit(&text, true, -1, -1, &err));
    assert_string_equal(str_get(&text), "");
    snprintf(command, sizeof command, "rmdir '%s/retain' '%s'", base, base);
    assert_int_equal(system(command), 0); /* nothing is in them */
}
