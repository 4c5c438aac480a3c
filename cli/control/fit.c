#include "cli/control/fit.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/options/options.h"
#include "runtime/cache/policy.h"
#include "runtime/forward/engine.h"

static bool wanted(const struct options *o, const struct engine *g)
{
    const struct policy *p = o->session.plan.policy.row;
    return o->engine.model && o->engine.heads_dir && !g->retaining && !g->heads_declined &&
           !o->session.private_mode && (!p || p->scorer == POLICY_CIS) && g->model->n_kv_layer > 0;
}

void fit_tell(const struct options *o, const struct engine *g, struct str *note)
{
    if (!o->session.private_mode || !o->engine.heads_dir || !o->engine.model) return;
    str_puts(note, g->retaining ? "private: this chat uses heads that were fitted to this model"
                                : "private: no retaining heads are fitted");
}

/* The child prints nothing, has a low priority, and dies with its parent. */
static void run_child(const char *model)
{
    const int null = open("/dev/null", O_RDWR);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (nice(10) == -1) _exit(127);
    for (int i = 0; i < 3; i++) dup2(null, i);
    execl("/proc/self/exe", "retain", "heads", "fit", "-m", model, (char *)NULL);
    _exit(127);
}

void fit_begin(struct fit *f, const struct options *o, const struct engine *g, struct str *note)
{
    if (f->tried || !wanted(o, g)) return;
    f->tried = true;
    f->pid = fork();
    if (f->pid == 0) run_child(o->engine.model);
    if (f->pid < 0) f->pid = 0;
    if (f->pid)
        str_puts(note, "retaining heads are being fitted to this model, once, in the background; "
                       "they will choose what this conversation keeps (--heads none: without)");
}

bool fit_done(struct fit *f)
{
    int status;
    if (!f->pid || waitpid(f->pid, &status, WNOHANG) != f->pid) return false;
    f->pid = 0;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void fit_stop(struct fit *f)
{
    f->tried = false;
    if (!f->pid) return;
    kill(f->pid, SIGKILL);
    waitpid(f->pid, NULL, 0);
    f->pid = 0;
}
