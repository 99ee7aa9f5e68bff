/*
 * main.c: interlockd, from its options to its end.
 */

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sysexits.h>
#include <unistd.h>

#include <sodium.h>

#include "alert.h"
#include "certs.h"
#include "check.h"
#include "edge.h"
#include "events.h"
#include "fcgx.h"
#include "log.h"
#include "loop.h"
#include "metrics.h"
#include "notify.h"
#include "park.h"
#include "req.h"
#include "route.h"
#include "server.h"
#include "work.h"


#ifndef IL_VERSION
#define IL_VERSION  "unknown"
#endif


il_server_t  il_srv;


typedef struct {
    const char  *file;
    int          test;
    int          show;
} il_args_t;


static const char  il_usage[] =
    "usage: interlockd [-c FILE] [-t] [--show-config] [--version]\n"
    "                  [--NAME=VALUE ...]\n"
    "\n"
    "  -c FILE         read the configuration from FILE\n"
    "  -t              check the configuration and exit\n"
    "  --show-config   print the configuration, without secrets, and exit\n"
    "  --version       print the version and exit\n"
    "  --NAME=VALUE    set NAME, over the environment and the file\n";


/* Once for -c, which the other options are over, and once for those.  -1 to
 * go on, else the code to exit with. */

static int
il_main_args(il_args_t *args, int argc, char **argv, int settings)
{
    int   i, rc;
    char  err[IL_CONF_ERR_CAP];

    for (i = 1; i < argc; i++) {

        if (strcmp(argv[i], "-c") == 0 && i + 1 < argc) {
            args->file = argv[++i];

        } else if (strcmp(argv[i], "-t") == 0) {
            args->test = 1;

        } else if (strcmp(argv[i], "--show-config") == 0) {
            args->show = 1;

        } else if (strcmp(argv[i], "--version") == 0) {
            (void) printf("interlockd %s\n", IL_VERSION);
            return 0;

        } else if (strcmp(argv[i], "--help") == 0) {
            (void) fputs(il_usage, stdout);
            return 0;

        } else {
            rc = 1;

            if (strncmp(argv[i], "--", 2) == 0) {
                if (!settings) {
                    continue;
                }

                rc = il_conf_option(&il_srv.conf, argv[i] + 2, err,
                                    sizeof(err));
            }

            if (rc == 1) {
                (void) fprintf(stderr, "interlockd: unknown option \"%s\"\n"
                               "%s", argv[i], il_usage);
                return EX_USAGE;
            }

            if (rc != 0) {
                (void) fprintf(stderr, "interlockd: %s\n", err);
                return EX_CONFIG;
            }
        }
    }

    return -1;
}


static int
il_main_conf(il_args_t *args, int argc, char **argv)
{
    int   rc;
    char  err[IL_CONF_ERR_CAP];

    rc = il_main_args(args, argc, argv, 0);
    if (rc >= 0) {
        return rc;
    }

    if ((args->file != NULL
         && il_conf_file(&il_srv.conf, args->file, err, sizeof(err)) != 0)
        || il_conf_env(&il_srv.conf, err, sizeof(err)) != 0)
    {
        (void) fprintf(stderr, "interlockd: %s\n", err);
        return EX_CONFIG;
    }

    rc = il_main_args(args, argc, argv, 1);
    if (rc >= 0) {
        return rc;
    }

    if (args->show) {
        il_conf_show(&il_srv.conf, stdout, il_db_describe);
        return 0;
    }

    if (il_conf_check(&il_srv.conf, err, sizeof(err)) != 0
        || il_check_conf(&il_srv.conf, err, sizeof(err)) != 0
        || il_alert_conf(&il_srv.conf, err, sizeof(err)) != 0
        || il_certs_conf(&il_srv.conf, err, sizeof(err)) != 0
        || il_keys_load(il_srv.conf.keys_dir, err, sizeof(err)) != 0)
    {
        (void) fprintf(stderr, "interlockd: %s\n", err);
        return EX_CONFIG;
    }

    if (args->test) {
        (void) printf("interlockd: the configuration is good\n");
        return 0;
    }

    return -1;
}


/* Keys and tokens in memory must not end in a core file, nor be read by a
 * debugger of the same user. */

static void
il_main_limits(void)
{
    struct rlimit  rl;

    if (getrlimit(RLIMIT_NOFILE, &rl) == 0) {
        rl.rlim_cur = rl.rlim_max;

        if (setrlimit(RLIMIT_NOFILE, &rl) != 0) {
            il_log(IL_LOG_WARN, "setrlimit: %s", strerror(errno));
        }
    }

    if (!il_srv.conf.core_dumps) {
        rl.rlim_cur = 0;
        rl.rlim_max = 0;

        if (setrlimit(RLIMIT_CORE, &rl) != 0
            || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0)
        {
            il_log(IL_LOG_WARN, "core dumps could not be turned off: %s",
                   strerror(errno));
        }
    }

    /* fewer arenas, less memory kept for threads that do not need it */

    (void) mallopt(M_ARENA_MAX, 4);
}


static int
il_main_pid(void)
{
    FILE  *f;

    if (il_srv.conf.pid[0] == '\0') {
        return 0;
    }

    f = fopen(il_srv.conf.pid, "we");
    if (f == NULL) {
        return -1;
    }

    if (fprintf(f, "%ld\n", (long) getpid()) < 0) {
        (void) fclose(f);
        return -1;
    }

    return fclose(f) == 0 ? 0 : -1;
}


static int
il_main_start(void)
{
    const il_conf_t  *conf = &il_srv.conf;

    il_srv.submit.slow = &il_srv.submit_slow;
    il_srv.submit_slow.waits = 1;

    return il_lane_start(&il_srv.submit, &il_submit_ops, conf,
                         (size_t) conf->submit_connections) == 0
           && il_lane_start(&il_srv.submit_slow, &il_submit_ops, conf, 1)
              == 0
           && il_lane_start(&il_srv.claim, &il_claim_ops, conf,
                            (size_t) conf->claim_connections) == 0
           && il_lane_start(&il_srv.lease, &il_lease_ops, conf,
                            (size_t) conf->lease_connections) == 0
           && il_lane_start(&il_srv.finish, &il_finish_ops, conf,
                            (size_t) conf->finish_connections) == 0
           && il_lane_start(&il_srv.begin, &il_begin_ops, conf,
                            (size_t) conf->effect_connections) == 0
           && il_lane_start(&il_srv.outcome, &il_outcome_ops, conf,
                            (size_t) conf->effect_connections) == 0
           && il_lane_start(&il_srv.look, &il_look_ops, conf, 1) == 0
           && il_lane_start(&il_srv.read, &il_read_ops, conf,
                            (size_t) conf->read_connections) == 0
           && il_work_start((size_t) conf->threads) == 0
           && il_events_start(conf) == 0
           && il_notify_start() == 0
           && il_sweep_start() == 0
           && il_outcall_init() == 0
           && il_check_start() == 0
           && il_certs_start() == 0
           && il_alert_start() == 0
           && il_edge_start() == 0 ? 0 : -1;
}


/* Lanes before workers: what lanes still hand out needs them.  Then the read
 * lane: leases may have to be handed back.  The others are told of that. */

static void
il_main_stop(void)
{
    il_lane_hurry();
    il_events_stop();
    il_sweep_stop();
    il_check_stop();
    il_alert_stop();
    il_certs_stop();
    il_edge_stop();

    il_lane_stop(&il_srv.submit);
    il_lane_stop(&il_srv.submit_slow);
    il_lane_stop(&il_srv.claim);
    il_lane_stop(&il_srv.lease);
    il_lane_stop(&il_srv.finish);
    il_lane_stop(&il_srv.begin);
    il_lane_stop(&il_srv.outcome);
    il_lane_stop(&il_srv.look);
    il_work_stop();
    il_lane_stop(&il_srv.read);
    il_notify_stop();

    il_loop_stop();
    il_park_free();
    il_health_free();
    il_metrics_free();
    il_outcall_end();
}


static int
il_main_run(void)
{
    int       late;
    char      err[IL_CONF_ERR_CAP], dsn[512];
    sigset_t  set;

    if (il_log_open(il_srv.conf.log,
                    (il_log_level_e) il_log_level_find(il_srv.conf.log_level))
        != 0)
    {
        (void) fprintf(stderr, "interlockd: log \"%s\": %s\n",
                       il_srv.conf.log, strerror(errno));
        return EX_CANTCREAT;
    }

    il_main_limits();

    if (il_fcgx_init() != 0 || il_park_init(&il_srv.conf) != 0) {
        il_log(IL_LOG_ERROR, "cannot start");
        return EX_OSERR;
    }

    if (il_loop_init(&il_srv.conf, err, sizeof(err)) != 0
        || il_edge_init(err, sizeof(err)) != 0)
    {
        il_log(IL_LOG_ERROR, "%s", err);
        return EX_OSERR;
    }

    if (il_main_pid() != 0) {
        il_log(IL_LOG_ERROR, "pid \"%s\": %s", il_srv.conf.pid,
               strerror(errno));
        return EX_CANTCREAT;
    }

    if (il_main_start() != 0) {
        il_log(IL_LOG_ERROR, "cannot start threads");
        return EX_OSERR;
    }

    il_log(IL_LOG_NOTICE, "interlockd %s serves \"%s\" from %s", IL_VERSION,
           il_srv.conf.listen,
           il_db_describe(il_srv.conf.dsn, dsn, sizeof(dsn)));

    late = il_loop_run();

    /* from here on a signal ends the process at once */

    (void) signal(SIGTERM, SIG_DFL);
    (void) signal(SIGINT, SIG_DFL);
    (void) sigemptyset(&set);
    (void) sigaddset(&set, SIGTERM);
    (void) sigaddset(&set, SIGINT);
    (void) pthread_sigmask(SIG_UNBLOCK, &set, NULL);

    if (il_srv.conf.pid[0] != '\0') {
        (void) unlink(il_srv.conf.pid);
    }

    if (late) {
        il_log(IL_LOG_WARN, "ended with %zu requests unanswered",
               il_req_inflight());
        _exit(1);
    }

    il_main_stop();
    il_log(IL_LOG_NOTICE, "ended");

    return 0;
}


int
main(int argc, char **argv)
{
    int        rc;
    il_args_t  args;

    memset(&args, 0, sizeof(args));

    if (sodium_init() < 0 || il_conf_init(&il_srv.conf) != 0) {
        (void) fprintf(stderr, "interlockd: cannot start\n");
        return EX_OSERR;
    }

    rc = il_main_conf(&args, argc, argv);

    if (rc < 0) {
        rc = il_main_run();
    }

    il_conf_free(&il_srv.conf);
    il_keys_wipe();

    return rc;
}
