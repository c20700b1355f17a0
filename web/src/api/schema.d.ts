// Made by `npm run types` from the API's description. Do not edit.
// mark: 0b8c583c9471dce0

export interface paths {
    "/api/v1/jobs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Jobs
         * @description Jobs of any state, newest first.
         */
        get: operations["list_jobs"];
        put?: never;
        /**
         * Submit Jobs
         * @description Submit a job file: one job, or one for every point of its sweep. All are accepted or none.
         */
        post: operations["submit_jobs"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/jobs/{job}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Job
         * @description One job as it is now, and how good predictions such as its own were.
         */
        get: operations["get_job"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        /**
         * Change Job
         * @description Change a job that waits or runs.
         */
        patch: operations["change_job"];
        trace?: never;
    };
    "/api/v1/jobs/{job}/source": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Job Source
         * @description The job as it was accepted: command, environment, what it asks for. For its owner.
         */
        get: operations["get_job_source"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/jobs/{job}/cancel": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Cancel Job
         * @description Take a job back, or stop it.
         */
        post: operations["cancel_job"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/jobs/{job}/hold": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Hold Job
         * @description Keep a pending job from starting.
         */
        post: operations["hold_job"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/jobs/{job}/release": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Release Job
         * @description Let a held job go on.
         */
        post: operations["release_job"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/jobs/{job}/resubmit": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Resubmit Job
         * @description The same job once more, as a new one.
         */
        post: operations["resubmit_job"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/jobs/{job}/why": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Why Job
         * @description Everything that keeps a job from starting now.
         */
        get: operations["why_job"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/jobs/{job}/when": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * When Job
         * @description When a job is expected to start and how long to run, as ranges, and how good such forecasts were.
         */
        get: operations["when_job"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/whatif": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * What If
         * @description What a job would meet if it were submitted now. Nothing is submitted.
         */
        post: operations["what_if"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/jobs/{job}/story": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Job Story
         * @description What happened to a job, oldest first.
         */
        get: operations["job_story"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/pods/{namespace}/{pod}/job": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Job Of Pod
         * @description The job that a pod is part of. It has none while its gang is not complete, or if it cannot be read.
         */
        get: operations["job_of_pod"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/recommend": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Recommend
         * @description What a job should ask for by past runs of its kind, how long it would run with how many GPUs, and why.
         */
        post: operations["recommend"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/jobs/{job}/logs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read Logs
         * @description A part of a task's log: from an offset in bytes on, or its last lines. Attempt: the latest unless given.
         */
        get: operations["read_logs"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/jobs/{job}/logs/stream": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Stream Logs
         * @description A job's log as it is written, over all attempts, up to its end.
         */
        get: operations["stream_logs"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/queue": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Queue
         * @description Pending jobs in the order in which they are asked for. Positions count the jobs of all tenants.
         */
        get: operations["get_queue"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/cluster": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Cluster
         * @description All machines in a few numbers.
         */
        get: operations["get_cluster"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/nodes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Nodes
         * @description Machines with their cards, and who is on them. Jobs of other tenants have no names here.
         */
        get: operations["list_nodes"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/nodes/{node}/drain": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Drain Node
         * @description Nothing new starts on this node; what runs, runs on.
         */
        post: operations["drain_node"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/nodes/{node}/undrain": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Undrain Node
         * @description The node takes work again.
         */
        post: operations["undrain_node"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/cards/{card}/cordon": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Cordon Card
         * @description Nothing new starts on this card; what runs, runs on.
         */
        post: operations["cordon_card"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/cards/{card}/uncordon": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Uncordon Card
         * @description The card takes work again.
         */
        post: operations["uncordon_card"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/cards/{card}/samples": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Samples
         * @description How busy a card was; the last hour unless told otherwise.
         */
        get: operations["list_samples"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/windows": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Windows
         * @description Announced maintenance.
         */
        get: operations["list_windows"];
        put?: never;
        /**
         * Add Window
         * @description Announce maintenance: no gang starts there that would run into it.
         */
        post: operations["add_window"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/windows/{window}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /**
         * Remove Window
         * @description Call maintenance off.
         */
        delete: operations["remove_window"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/cards": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Cards
         * @description Every card, and how it is to be divided among those who share it.
         */
        get: operations["list_cards"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/cards/{card}/divide": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /**
         * Set Card Divide
         * @description Divide a card by another policy. Jobs on it run on, and the change holds from the next squad of kernels on.
         */
        put: operations["set_card_divide"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/cards/{card}/divide/revisions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Card Divides
         * @description Every change of how a card is divided, newest first.
         */
        get: operations["list_card_divides"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/cards/{card}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Card
         * @description How a card is divided at this moment, and among whom. Jobs of other tenants have no names here.
         */
        get: operations["get_card"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/policy": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Policy
         * @description What decides now, and since when.
         */
        get: operations["get_policy"];
        /**
         * Set Policy
         * @description Other policies from the next decision on. What runs, runs on.
         */
        put: operations["set_policy"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/policy/revisions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Revisions
         * @description Every change of the policies, newest first.
         */
        get: operations["list_revisions"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/policy/preview": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Preview Policy
         * @description What other policies would do to the queue as it is. Nothing changes.
         */
        post: operations["preview_policy"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/usage": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Usage
         * @description GPU hours within an interval, largest first. What runs counts up to now.
         */
        get: operations["get_usage"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/predictions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Predictions
         * @description Errors and calibration of predicted run times, by tenant and by source; of the last 30 days unless told.
         */
        get: operations["get_predictions"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Stream Events
         * @description Every change of every job one may see.
         */
        get: operations["stream_events"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/me": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Me
         * @description Who asks, and what they may do.
         */
        get: operations["get_me"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/tenants": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Tenants
         * @description All tenants for administrators, one's own for others.
         */
        get: operations["list_tenants"];
        put?: never;
        /**
         * Add Tenant
         * @description A new tenant.
         */
        post: operations["add_tenant"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/tenants/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /**
         * Put Tenant
         * @description A tenant's weight, guarantee and limits, all of them; made if it is not there.
         */
        put: operations["put_tenant"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/users": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Users
         * @description All users for administrators, those of one's own tenant for others.
         */
        get: operations["list_users"];
        put?: never;
        /**
         * Add User
         * @description A new user. A token lets them in.
         */
        post: operations["add_user"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/users/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        /**
         * Change User
         * @description Another tenant or role, or shut out. Takes effect at once.
         */
        patch: operations["change_user"];
        trace?: never;
    };
    "/api/v1/tokens": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Tokens
         * @description All tokens for administrators, one's own for others.
         */
        get: operations["list_tokens"];
        put?: never;
        /**
         * Add Token
         * @description A new token. It may do no more, and for no longer, than the one that asks for it.
         */
        post: operations["add_token"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/tokens/{token}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /**
         * Revoke Token
         * @description From now on it lets nobody in.
         */
        delete: operations["revoke_token"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/audit": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Audit
         * @description Every change somebody made, newest first.
         */
        get: operations["list_audit"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/secrets": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Secrets
         * @description Names only.
         */
        get: operations["list_secrets"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/secrets/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /**
         * Put Secret
         * @description Keep a value under a name, in place of the one before.
         */
        put: operations["put_secret"];
        post?: never;
        /**
         * Remove Secret
         * @description Forget a value. Tasks that have it keep it.
         */
        delete: operations["remove_secret"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/notices/rules": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Rules
         * @description One's own rules. Addresses are shown without their secrets.
         */
        get: operations["list_rules"];
        put?: never;
        /**
         * Add Rule
         * @description Tell me about such events there.
         */
        post: operations["add_rule"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/notices/rules/{rule}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /**
         * Remove Rule
         * @description No more of these, and not those on their way either.
         */
        delete: operations["remove_rule"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/notices/outbox": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Outbox
         * @description One's own notices, newest first: waiting, sent, or dead (given up on).
         */
        get: operations["list_outbox"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/notices/test": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Test Notice
         * @description Send one notice now, to an address or as a rule would.
         */
        post: operations["test_notice"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/notices/{notice}/retry": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Retry Notice
         * @description Try a dead one from the beginning.
         */
        post: operations["retry_notice"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/schema/job": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Job Schema
         * @description What a job file may hold.
         */
        get: operations["get_job_schema"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/timeline": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Timeline
         * @description What ran on the cards, what runs and until when it is expected to, what is reserved and planned, and announced
         *     maintenance. From a day back to half a day ahead unless told otherwise; 31 days and 20,000 bars at most. Jobs of
         *     other tenants have no names here; those that wait are left out while the plan has no cards for them.
         */
        get: operations["get_timeline"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/efficiency": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Efficiency
         * @description GPU-hours of all tenants by what became of them, in all and by node. Attempts tell what was given, samples how
         *     busy it was, thirty looks in each slot who waited; a job counts as waiting from its submission, or the end of an
         *     attempt, to its next start, unless it is held now. Slots are ten minutes long, and longer for many cards or a long
         *     time; of each the samples of the first ten minutes are read. A slot without a sample of a card is unknown.
         */
        get: operations["get_efficiency"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/free": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Free
         * @description Cards by what they are good for now, and how many gangs of so many GPUs fit.
         */
        get: operations["get_free"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/interference": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Interference
         * @description What the service knows of workloads that share a card: alone, every two of them beside each other and where the
         *     figure comes from, and how far off the model was. Workloads that were only learned of have names that tenants
         *     gave them: they are for administrators.
         */
        get: operations["get_interference"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/jobs/{job}/neighbours": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Job Neighbours
         * @description Who is on the cards of a job now, and the slowdown that is expected and seen. Jobs of other tenants have no
         *     names here.
         */
        get: operations["job_neighbours"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/goals": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Goals
         * @description Weights, goals and how far they are met, by tenant and by job; one's own tenant unless one administers.
         *     Deadlines are judged by the store. Attainment of latency, throughput and availability is what whoever divides a
         *     card says: on record once a minute, and more often while somebody asks.
         */
        get: operations["get_goals"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/predictions/series": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Prediction Series
         * @description Errors of predicted run times by tenant and source together, their course over time, and single predictions
         *     beside their truths; of the last 30 days unless told.
         */
        get: operations["get_prediction_series"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/healthz": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Healthz
         * @description Whether the process answers.
         */
        get: operations["healthz"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/readyz": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Readyz
         * @description Whether jobs are taken and decided on.
         */
        get: operations["readyz"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/metrics": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Metrics
         * @description Open to this machine; from elsewhere to administrators only: the numbers name tenants.
         */
        get: operations["metrics"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** AccuracyView */
        AccuracyView: {
            /** Count */
            count: number;
            /** Within Ratio */
            within_ratio: number | null;
            /** Median Error S */
            median_error_s: number | null;
        };
        /**
         * AdviceLine
         * @description One field of the job file.
         */
        AdviceLine: {
            /** Field */
            field: string;
            /** Value */
            value: number | string;
            /**
             * Now
             * @description What the file says; null: nothing
             */
            now: number | string | null;
            /**
             * Change
             * @description Whether it is worth changing
             */
            change: boolean;
            /** Why */
            why: string;
        };
        /** AttainmentPoint */
        AttainmentPoint: {
            /** At S */
            at_s: number;
            /** Job */
            job: string;
            /** Attainment Ratio */
            attainment_ratio: number | null;
            /** Weight */
            weight: number | null;
        };
        /** AuditLine */
        AuditLine: {
            /** Id */
            id: number;
            /** At S */
            at_s: number;
            /** Actor */
            actor: string;
            /** Action */
            action: string;
            /** Target */
            target: string;
            /** Data */
            data: unknown;
        };
        /** AuditPage */
        AuditPage: {
            /** Items */
            items: components["schemas"]["AuditLine"][];
            /**
             * Next
             * @description Cursor of the next page; null: this is the last one
             */
            next: string | null;
        };
        /**
         * Bar
         * @description One attempt of a job on its cards.
         */
        Bar: {
            /**
             * Job
             * @description null: a job of another tenant
             */
            job: string | null;
            /** Name */
            name: string | null;
            /** Tenant */
            tenant: string | null;
            /** User */
            user: string | null;
            /** Attempt */
            attempt: number;
            /** Cards */
            cards: string[];
            /** Start S */
            start_s: number;
            /**
             * End S
             * @description null: it is on its cards
             */
            end_s: number | null;
            /**
             * State
             * @description How it ended, or the state of its job; of other tenants: running or over
             */
            state: string;
            /**
             * Share Ratio
             * @description What it was given of each card; 1: the whole of it
             */
            share_ratio: number;
            /** @description When one that runs is expected to end */
            expected: components["schemas"]["End"] | null;
        };
        /**
         * CalibrationPoint
         * @description Of runs of one source, the part that ended by the value predicted at a level.
         */
        CalibrationPoint: {
            /** Source */
            source: string;
            /** Level */
            level: number;
            /** Observed */
            observed: number;
            /** Count */
            count: number;
        };
        /** CardDetail */
        CardDetail: {
            /** Id */
            id: string;
            /** Uuid */
            uuid: string | null;
            /** Node */
            node: string;
            /** Index */
            index: number;
            /** Model */
            model: string;
            /** Memory Bytes */
            memory_bytes: number;
            /** Simulated */
            simulated: boolean;
            divide: components["schemas"]["DivideView"];
            /** @description null: the card is not divided now */
            now: components["schemas"]["CardNow"] | null;
        };
        /** CardDivision */
        CardDivision: {
            /** Id */
            id: string;
            /** Uuid */
            uuid: string | null;
            /** Node */
            node: string;
            /** Index */
            index: number;
            /** Model */
            model: string;
            /** Memory Bytes */
            memory_bytes: number;
            /** Simulated */
            simulated: boolean;
            divide: components["schemas"]["DivideView"];
        };
        /** CardDivisionPage */
        CardDivisionPage: {
            /** Items */
            items: components["schemas"]["CardDivision"][];
            /**
             * Next
             * @description Cursor of the next page; null: this is the last one
             */
            next: string | null;
        };
        /**
         * CardInterference
         * @description One model of card. Settings are not mixed: the one that counts is shown.
         */
        CardInterference: {
            /** Gpu */
            gpu: string;
            /** Driver */
            driver: string | null;
            /**
             * Memory Bytes
             * @description Measured with so much of the card's memory; null: with all of it
             */
            memory_bytes: number | null;
            /**
             * Measured S
             * @description null: nothing was measured, all is learned
             */
            measured_s: number | null;
            /** Workloads */
            workloads: components["schemas"]["WorkloadView"][];
            /**
             * Pairs
             * @description Every two of the workloads, both ways
             */
            pairs: components["schemas"]["PairView"][];
            errors: components["schemas"]["ErrorsView"];
        };
        /**
         * CardNow
         * @description How a card is divided at this moment.
         */
        CardNow: {
            /** Policy */
            policy: string;
            /**
             * Configuration
             * @description unrestricted, strict, semi-spatial or temporal
             */
            configuration: string;
            /** Length Us */
            length_us: number;
            /** Squads */
            squads: number;
            /**
             * Groups
             * @description SM groups of the card; null: not known
             */
            groups: number | null;
            /**
             * Why
             * @description The policy's own words; for administrators
             */
            why: string;
            /**
             * Failure
             * @description The policy's last error, while it does not answer; for administrators
             */
            failure: string;
            /**
             * Pool
             * @description How processes of several jobs run at once on the card, in words; empty: not known
             */
            pool: string;
            /**
             * Context Bytes
             * @description Charged to a job's part for the CUDA context of each of its processes
             */
            context_bytes: number;
            /** Tenants */
            tenants: components["schemas"]["TenantNow"][];
            /** Stranger Count */
            stranger_count: number;
            /**
             * Strangers
             * @description For administrators
             */
            strangers: components["schemas"]["StrangerNow"][];
            /**
             * Rule
             * @description What becomes of strangers: report, refuse or share
             */
            rule: string;
        };
        /**
         * CardUserView
         * @description A job on a card; of other tenants only that there is one.
         */
        CardUserView: {
            /** Id */
            id: string | null;
            /** Name */
            name: string | null;
            /** User */
            user: string | null;
            /**
             * Share
             * @description sm (ratio), memory_bytes, and isolation: shared or isolated; null: the whole card
             */
            share: {
                [key: string]: number | string | null;
            } | null;
        };
        /** CardView */
        CardView: {
            /** Id */
            id: string;
            /** Uuid */
            uuid: string | null;
            /** Model */
            model: string;
            /** Memory Bytes */
            memory_bytes: number;
            /** Index */
            index: number;
            /**
             * State
             * @enum {string}
             */
            state: "free" | "busy" | "shared" | "taken_outside" | "cordoned" | "drained";
            /** Cause */
            cause: string;
            /** Jobs */
            jobs: components["schemas"]["CardUserView"][];
            /** Sample */
            sample: {
                [key: string]: unknown;
            } | null;
            /** Simulated */
            simulated: boolean;
        };
        /** CauseRequest */
        CauseRequest: {
            /**
             * Cause
             * @default
             */
            cause: string;
        };
        /**
         * ChangeRequest
         * @description What to change; what is left out stays.
         */
        ChangeRequest: {
            /** Name */
            name?: string | null;
            /** Priority */
            priority?: string | null;
            /** Queue */
            queue?: string | null;
            /** Lane */
            lane?: string | null;
            /**
             * Slo
             * @description An empty one removes the goal
             */
            slo?: {
                [key: string]: string | number;
            } | null;
            /** Estimate */
            estimate?: number | string | null;
            /** Limit */
            limit?: number | string | null;
            /**
             * Memory
             * @description Of its card, for each task with a share: 6GiB, 30%; peak: what it held at most, and a tenth more
             */
            memory?: number | string | null;
        };
        /** ChangedJob */
        ChangedJob: {
            /** Id */
            id: string;
            /** Name */
            name: string;
            /** Tenant */
            tenant: string;
            /** User */
            user: string;
            /** Queue */
            queue: string;
            /** Group */
            group: string | null;
            /** State */
            state: string;
            /** Attempt */
            attempt: number;
            /** Priority */
            priority: string;
            /** Lane */
            lane: string;
            /** Gpus */
            gpus: number;
            /** @description What each task has of one card; null: whole cards or none, or not all tasks ask for the same */
            share: components["schemas"]["JobShare"] | null;
            /** Tasks */
            tasks: number;
            /** Submitted S */
            submitted_s: number;
            /** Started S */
            started_s: number | null;
            /** Ended S */
            ended_s: number | null;
            /** Cause */
            cause: string;
            /** Placement */
            placement: components["schemas"]["TaskPlace"][];
            result: components["schemas"]["TaskResult"] | null;
            progress: components["schemas"]["Progress"] | null;
            forecast: components["schemas"]["RunForecast"] | null;
            /** Retries Left */
            retries_left: number;
            /** Preemptions */
            preemptions: number;
            /** After */
            after: components["schemas"]["DependencyView"][];
            /**
             * Memory
             * @description Of its card, for each task, from now on: bytes, or a percentage; null: nothing that was named
             */
            memory: number | string | null;
        };
        /**
         * Checkpoint
         * @description How the job survives being stopped, and what that costs.
         */
        CheckpointSpec: {
            /**
             * Every
             * @description How often the job saves its state to GPUSQUAD_CHECKPOINT_DIR. Left out: never, a stop loses all.
             * @example 10m
             */
            every?: number | string | null;
            /**
             * Restart
             * @description How long it takes to be back where it was after a restart.
             * @example 30s
             */
            restart?: number | string | null;
            /**
             * Preemptible
             * @description Whether it may be stopped for another job and started again later.
             * @default true
             * @example true
             * @example false
             */
            preemptible: boolean;
            /**
             * Grace
             * @description Time between the signal TERM and the end by force.
             * @example 30s
             * @example 2m
             */
            grace?: number | string | null;
        };
        /** ClusterView */
        ClusterView: {
            /** Gpus */
            gpus: number;
            /** Free */
            free: number;
            /** Usable */
            usable: {
                [key: string]: number;
            };
            /** Unhealthy */
            unhealthy: number;
            /** Taken Outside */
            taken_outside: number;
            /** Simulated */
            simulated: boolean;
            /** Mode */
            mode: string;
        };
        /**
         * CrossLine
         * @description Of one tenant and one source. Only runs that ended by themselves are judged; null: there was none.
         */
        CrossLine: {
            /** Tenant */
            tenant: string;
            /** Source */
            source: string;
            /** Count */
            count: number;
            /**
             * Cut
             * @description Runs that something else ended
             */
            cut: number;
            /**
             * Median Ratio
             * @description Half of the predictions were this near, in parts of the truth
             */
            median_ratio: number | null;
            /** Mean Error S */
            mean_error_s: number | null;
            /** Within P50 */
            within_p50: number | null;
            /** Within P90 */
            within_p90: number | null;
            /** Within P99 */
            within_p99: number | null;
            /** Pinball S */
            pinball_s: number | null;
            /**
             * Bias
             * @description Median of ln(truth / middle): above 0, runs take longer than said
             */
            bias: number | null;
        };
        /** CurvePoint */
        CurvePoint: {
            /**
             * Sm Ratio
             * @description Part of the SMs
             */
            sm_ratio: number;
            /**
             * Speed Ratio
             * @description Speed with them over that with all
             */
            speed_ratio: number;
        };
        /**
         * DeadlinePoint
         * @description Deadlines of a tenant that were met or missed within a span.
         */
        DeadlinePoint: {
            /** At S */
            at_s: number;
            /** Tenant */
            tenant: string;
            /** Met */
            met: number;
            /** Missed */
            missed: number;
        };
        /** Delay */
        Delay: {
            /** Job */
            job: string;
            /** By S */
            by_s: number;
        };
        /**
         * Dependency
         * @description Another job that must end first.
         */
        DependencySpec: {
            /**
             * Job
             * @description Its id or its name.
             * @example prepare
             */
            job: string;
            /**
             * On
             * @description Which end lets this job start: success, failure or any.
             * @default success
             * @example success
             * @example any
             * @enum {string}
             */
            on: "success" | "failure" | "any";
        };
        /** DependencyView */
        DependencyView: {
            /** Job */
            job: string;
            /** On */
            on: string;
        };
        /** DivideRequest */
        DivideRequest: {
            /**
             * Policy
             * @description As in slo or hybrid:alpha=0.5; null: what the mode says, again
             */
            policy: string | null;
            /**
             * Note
             * @default
             */
            note: string;
        };
        /** DivideRevision */
        DivideRevision: {
            /** Revision */
            revision: number;
            /** At S */
            at_s: number;
            /** By */
            by: string;
            /** Card */
            card: string;
            /** Policy */
            policy: string | null;
            /** Note */
            note: string;
        };
        /** DivideRevisionPage */
        DivideRevisionPage: {
            /** Items */
            items: components["schemas"]["DivideRevision"][];
            /**
             * Next
             * @description Cursor of the next page; null: this is the last one
             */
            next: string | null;
        };
        /**
         * DivideView
         * @description What a card is to be divided by, and what became of that.
         */
        DivideView: {
            /** Policy */
            policy: string;
            /**
             * Own
             * @description Set for this card; otherwise it is the mode's
             */
            own: boolean;
            /**
             * Of Mode
             * @description What the mode says
             */
            of_mode: string;
            /**
             * Revision
             * @description The last change for this card; null: there was none
             */
            revision: number | null;
            /** Since S */
            since_s: number | null;
            /** By */
            by: string;
            /** Note */
            note: string;
            /**
             * Effect
             * @description live: divided by it now. told: for a moment still by another. unused: nobody shares the card now. kept: cards are not divided here
             * @enum {string}
             */
            effect: "live" | "told" | "unused" | "kept";
            /** Message */
            message: string;
        };
        /**
         * Done
         * @description It is done, and there is nothing to tell.
         */
        Done: {
            /** Ok */
            ok: boolean;
        };
        /** EfficiencyView */
        EfficiencyView: {
            /** Since S */
            since_s: number;
            /** Until S */
            until_s: number;
            /**
             * Slot S
             * @description What samples are averaged over
             */
            slot_s: number;
            total: components["schemas"]["GpuHours"];
            /** Nodes */
            nodes: components["schemas"]["NodeHours"][];
            /**
             * Truncated
             * @description More attempts or jobs than are looked at: the figures are of a part of them
             */
            truncated: boolean;
        };
        /**
         * End
         * @description When a job that runs is expected to end, as things stand.
         */
        End: {
            /** Mid S */
            mid_s: number | null;
            /** High S */
            high_s: number | null;
            /** Source */
            source: string;
        };
        /**
         * ErrorLine
         * @description Of one tenant, or of one source. Only runs that ended by themselves are judged; null: there was none.
         */
        ErrorLine: {
            /** Key */
            key: string;
            /** Count */
            count: number;
            /**
             * Cut
             * @description Runs that something else ended: how long they would have taken nobody knows
             */
            cut: number;
            /**
             * Median Ratio
             * @description Half of the predictions were this near, in parts of the truth
             */
            median_ratio: number | null;
            /**
             * Mean Error S
             * @description Mean distance of the middle from the truth
             */
            mean_error_s: number | null;
            /**
             * Within P50
             * @description Part that ended by then; with a good prediction a half
             */
            within_p50: number | null;
            /** Within P90 */
            within_p90: number | null;
            /** Within P99 */
            within_p99: number | null;
            /**
             * Pinball S
             * @description Mean pinball loss over the levels; less is better
             */
            pinball_s: number | null;
            /**
             * Bias
             * @description Median of ln(truth / middle): above 0, runs take longer than said
             */
            bias: number | null;
        };
        /** ErrorsView */
        ErrorsView: {
            /** @description Of the form that was fitted, on pairs with parts of the SMs */
            splits: components["schemas"]["ModelErrors"] | null;
            /** @description Of what pairs foretell of three, in the way that is taken */
            triples: components["schemas"]["ModelErrors"] | null;
            /** @description Of measured or predicted pairs, against what ran here */
            running: components["schemas"]["ModelErrors"] | null;
            /** Words */
            words: string;
        };
        /**
         * EvidenceView
         * @description The runs that were gone by.
         */
        EvidenceView: {
            /** Runs */
            runs: number;
            /** Of */
            of: string;
            /**
             * Jobs
             * @description The latest of them
             */
            jobs: string[];
            /** Uses */
            uses: components["schemas"]["UseView"][];
        };
        /**
         * FileRequest
         * @description A job file and what to fill into it.
         */
        FileRequest: {
            file: components["schemas"]["JobFile"];
            /**
             * Params
             * @default {}
             */
            params: {
                [key: string]: string | number | boolean;
            };
        };
        /** ForecastPoint */
        ForecastPoint: {
            /** Job */
            job: string;
            /** Attempt */
            attempt: number;
            /** Tenant */
            tenant: string;
            /** Source */
            source: string;
            /** Ended S */
            ended_s: number;
            /** Predicted S */
            predicted_s: number;
            /**
             * High S
             * @description By then nine of ten should have ended
             */
            high_s: number;
            /** Truth S */
            truth_s: number;
        };
        /**
         * FreeView
         * @description Every card is counted once, but for ``usable``, which are among those free.
         */
        FreeView: {
            /**
             * Gpus
             * @description Of the gang that is asked for
             */
            gpus: number;
            /** Total */
            total: number;
            /** Free */
            free: number;
            /**
             * Usable
             * @description Free cards that gangs of this size can have, each gang on one node
             */
            usable: number;
            /**
             * Gangs
             * @description How many such gangs fit now, each on one node
             */
            gangs: number;
            /**
             * Gangs Across
             * @description How many would fit if a gang could lie on any cards
             */
            gangs_across: number;
            /**
             * Largest Block
             * @description Most free cards on one node
             */
            largest_block: number;
            /** Busy */
            busy: number;
            /** Shared */
            shared: number;
            /**
             * Unhealthy
             * @description A fault, until it is mended or an administrator has looked
             */
            unhealthy: number;
            /**
             * Cordoned
             * @description By an administrator
             */
            cordoned: number;
            /**
             * Drained
             * @description Idle, on a node that takes nothing new
             */
            drained: number;
            /** Taken Outside */
            taken_outside: number;
        };
        /** GoalsView */
        GoalsView: {
            /** Since S */
            since_s: number;
            /** Until S */
            until_s: number;
            /**
             * Span S
             * @description Of the points of deadlines
             */
            span_s: number;
            /** Tenants */
            tenants: components["schemas"]["TenantGoals"][];
            /**
             * Jobs
             * @description 1,000 at most, those that are not over first
             */
            jobs: components["schemas"]["JobGoal"][];
            /** Deadlines */
            deadlines: components["schemas"]["DeadlinePoint"][];
            /**
             * Attainment
             * @description Of services, as seen while somebody asked: not on record, 20,000 at most
             */
            attainment: components["schemas"]["AttainmentPoint"][];
            /** Policies */
            policies: components["schemas"]["PolicyPoint"][];
            /** Truncated */
            truncated: boolean;
        };
        /**
         * GpuHours
         * @description All that there were, each of them once.
         */
        GpuHours: {
            /**
             * Busy
             * @description Given to jobs, and a kernel ran: means of samples, no more than was given
             */
            busy: number;
            /**
             * Reserved Idle
             * @description Given to jobs, and no kernel ran
             */
            reserved_idle: number;
            /**
             * Fragmented
             * @description Free while work waited, and of no use to the smallest gang that did: left over on a node, or all of it where the gang does not fit as a whole
             */
            fragmented: number;
            /**
             * Idle Waiting
             * @description Free while work waited, and the smallest gang would have fitted
             */
            idle_waiting: number;
            /**
             * Idle
             * @description Free, and nobody waited
             */
            idle: number;
            /**
             * Unhealthy
             * @description Cordoned or drained, by the audit; and broken, since a run was lost there. Faults that are mended are not on record
             */
            unhealthy: number;
            /**
             * Taken Outside
             * @description Free, and kernels ran all the same: means of samples beyond what was given
             */
            taken_outside: number;
            /**
             * Unknown
             * @description Nobody looked at the card in that slot
             */
            unknown: number;
        };
        /** HealthView */
        HealthView: {
            /** Ok */
            ok: boolean;
            /** Reason */
            reason: string;
        };
        /** InterferenceView */
        InterferenceView: {
            /**
             * Sharing
             * @description How cards are shared here; null: nobody asks what neighbours cost
             */
            sharing: string | null;
            /** Cards */
            cards: components["schemas"]["CardInterference"][];
            /**
             * Truncated
             * @description There are more workloads than are shown: 64 a card at most
             */
            truncated: boolean;
        };
        /**
         * IntervalView
         * @description A mean with its 95 % confidence interval.
         */
        IntervalView: {
            /** Mean */
            mean: number;
            /** Low */
            low: number;
            /** High */
            high: number;
            /** Repeats */
            repeats: number;
        };
        /** JobDetail */
        JobDetail: {
            /** Id */
            id: string;
            /** Name */
            name: string;
            /** Tenant */
            tenant: string;
            /** User */
            user: string;
            /** Queue */
            queue: string;
            /** Group */
            group: string | null;
            /** State */
            state: string;
            /** Attempt */
            attempt: number;
            /** Priority */
            priority: string;
            /** Lane */
            lane: string;
            /** Gpus */
            gpus: number;
            /** @description What each task has of one card; null: whole cards or none, or not all tasks ask for the same */
            share: components["schemas"]["JobShare"] | null;
            /** Tasks */
            tasks: number;
            /** Submitted S */
            submitted_s: number;
            /** Started S */
            started_s: number | null;
            /** Ended S */
            ended_s: number | null;
            /** Cause */
            cause: string;
            /** Placement */
            placement: components["schemas"]["TaskPlace"][];
            result: components["schemas"]["TaskResult"] | null;
            progress: components["schemas"]["Progress"] | null;
            forecast: components["schemas"]["RunForecast"] | null;
            /** Retries Left */
            retries_left: number;
            /** Preemptions */
            preemptions: number;
            /** After */
            after: components["schemas"]["DependencyView"][];
            run_record: components["schemas"]["RunTimeRecord"] | null;
        };
        /**
         * gpusquad job file
         * @description A job for gpusquad: what to run, what it needs, and how it should be treated.
         *
         *     ${name} in a text or a number stands for a parameter; $${ stands for the characters ${.
         */
        JobFile: {
            /**
             * Gpus
             * @description Whole GPUs for each task; auto: chosen by past runs.
             * @example 1
             * @example 8
             * @example auto
             */
            gpus?: number | "auto" | string | null;
            /**
             * Count
             * @description How many equal tasks. They start together or not at all.
             * @example 1
             * @example 4
             */
            count?: number | string | null;
            /**
             * Min
             * @description An elastic job may start with as few tasks as this.
             * @example 2
             */
            min?: number | string | null;
            /**
             * Max
             * @description An elastic job may grow to as many tasks as this.
             * @example 8
             */
            max?: number | string | null;
            /**
             * Share
             * @description A part of one GPU for each task, instead of gpus.
             * @example {
             *       "memory": "10GiB",
             *       "sm": 0.25
             *     }
             */
            share?: components["schemas"]["ShareSpec"] | null;
            /**
             * CPU
             * @description Processor cores for each task.
             * @example 4
             * @example 0.5
             * @example 500m
             */
            cpu?: number | string | null;
            /**
             * Memory
             * @description Main memory for each task.
             * @example 16GiB
             */
            memory?: number | string | null;
            /**
             * GPU model
             * @description A model of card, or several of which any will do.
             * @example H100
             * @example [
             *       "A100",
             *       "H100"
             *     ]
             */
            gpu_model?: string | string[] | null;
            /**
             * GPU memory
             * @description With gpus: the least memory a card must have; auto: chosen by past runs.
             * @example 40GiB
             * @example auto
             */
            gpu_memory?: number | string | "auto" | null;
            /**
             * Card
             * @description One card by its id, with gpus: 1 or a share.
             * @example node-1/gpu-0
             */
            card?: string | null;
            /**
             * Name
             * @description What you call it; need not be unique.
             * @default
             * @example train-resnet
             */
            name: string;
            /**
             * Command
             * @description What each task runs: a list runs as it is, a text is run by /bin/sh -c.
             * @example [
             *       "python3",
             *       "train.py",
             *       "--lr",
             *       "0.1"
             *     ]
             * @example python3 train.py | tee out.txt
             */
            command?: string | string[] | null;
            /**
             * Roles
             * @description For a job whose tasks differ: what each kind of task asks for and runs. All start together.
             * @example [
             *       {
             *         "gpus": 4,
             *         "name": "learner"
             *       },
             *       {
             *         "count": 16,
             *         "cpu": 4,
             *         "name": "actor"
             *       }
             *     ]
             */
            roles?: components["schemas"]["RoleSpec"][] | null;
            /**
             * Image
             * @description The container image it runs in, on a cluster. On one machine tasks are its own processes.
             * @default
             * @example pytorch/pytorch:latest
             */
            image: string;
            /**
             * Tenant
             * @description Whose quota it counts against. Left out: yours.
             * @default
             * @example vision
             */
            tenant: string;
            /**
             * Queue
             * @description The queue of the tenant it waits in.
             * @default
             * @example nightly
             */
            queue: string;
            /**
             * Priority
             * @description Its class among others.
             * @default normal
             * @example normal
             * @example high
             */
            priority: ("low" | "normal" | "high" | "urgent") | string;
            /**
             * Lane
             * @description How it is treated; left out: chosen by rule.
             * @default
             * @example batch
             */
            lane: string;
            /**
             * App
             * @description The application: alike jobs carry the same label.
             * @default
             * @example resnet50
             */
            app: string;
            /**
             * Estimate
             * @description How long you think it runs. Helps planning, never stops the job.
             * @example 2h
             */
            estimate?: number | string | null;
            /**
             * Limit
             * @description After this long it is stopped.
             * @example 4h
             */
            limit?: number | string | null;
            /**
             * SLO
             * @description A goal for it.
             * @example {
             *       "p99": "20ms",
             *       "throughput": 100
             *     }
             */
            slo?: components["schemas"]["SloSpec"] | null;
            /**
             * Profile
             * @description What it is expected to use of a card.
             * @example {
             *       "memory": "6GiB",
             *       "utilisation": 0.4
             *     }
             */
            profile?: components["schemas"]["ProfileSpec"] | null;
            /**
             * Expect
             * @description What was worked out before it ran: a source of forecasts, never a limit.
             * @example {
             *       "memory": "12GiB",
             *       "run": "2h",
             *       "run_high": "3h"
             *     }
             */
            expect?: components["schemas"]["OfflineEstimateSpec"] | null;
            /**
             * Checkpoint
             * @description How it survives being stopped.
             * @example {
             *       "every": "10m",
             *       "grace": "30s"
             *     }
             */
            checkpoint?: components["schemas"]["CheckpointSpec"] | null;
            /**
             * Env
             * @description Variables for every task.
             * @example {
             *       "SEED": "1"
             *     }
             */
            env?: {
                [key: string]: string;
            };
            /**
             * Secrets
             * @description Secrets by name; each becomes a variable of every task.
             * @default []
             * @example [
             *       "WANDB_API_KEY",
             *       {
             *         "as": "HF_TOKEN",
             *         "name": "hub-token"
             *       }
             *     ]
             */
            secrets: (string | components["schemas"]["SecretSpec"])[];
            /**
             * Workdir
             * @description The folder the tasks start in.
             * @default
             * @example /data/project
             */
            workdir: string;
            /**
             * After
             * @description Jobs that must end before this one may start.
             * @default []
             * @example [
             *       "prepare"
             *     ]
             * @example [
             *       {
             *         "job": "train",
             *         "on": "any"
             *       }
             *     ]
             */
            after: (string | components["schemas"]["DependencySpec"])[];
            /**
             * Retries
             * @description How many times it is tried again when it does not succeed.
             * @example 3
             * @example {
             *       "backoff": "1m",
             *       "count": 3,
             *       "on": [
             *         "lost"
             *       ]
             *     }
             */
            retries?: number | string | components["schemas"]["RetrySpec"] | null;
            /**
             * Notify
             * @description What you want to be told.
             * @default []
             * @example [
             *       "succeeded",
             *       "failed"
             *     ]
             */
            notify: ("queued" | "started" | "finished" | "succeeded" | "failed" | "timed_out" | "cancelled" | "preempted" | "lost" | "hung" | "delayed" | "eta_moved")[];
            /**
             * Version
             * @description The version of this format.
             * @default 1
             * @example 1
             * @constant
             */
            version: 1;
            /**
             * Params
             * @description Parameters with their defaults. One without a value must be given when the job is submitted.
             * @example {
             *       "lr": 0.1
             *     }
             */
            params?: {
                [key: string]: string | number | boolean | null;
            };
            /**
             * Sweep
             * @description Many jobs from one file: every combination of the lists; lists under zip go side by side; a list of points is taken as it is. ${sweep.index} is the number of the point.
             * @example {
             *       "lr": [
             *         0.1,
             *         0.01
             *       ],
             *       "seed": [
             *         1,
             *         2,
             *         3
             *       ]
             *     }
             * @example {
             *       "zip": {
             *         "lr": [
             *           0.1,
             *           0.01
             *         ],
             *         "steps": [
             *           10,
             *           100
             *         ]
             *       }
             *     }
             * @example [
             *       {
             *         "lr": 1
             *       }
             *     ]
             */
            sweep?: ({
                /** @description Lists that go side by side. */
                zip?: {
                    [key: string]: (string | number | boolean)[];
                } | (string | number | boolean)[];
            } & {
                [key: string]: (string | number | boolean)[];
            }) | {
                [key: string]: string | number | boolean;
            }[] | null;
        };
        /** JobGoal */
        JobGoal: {
            /** Job */
            job: string;
            /** Name */
            name: string;
            /** Tenant */
            tenant: string;
            /** State */
            state: string;
            goal: components["schemas"]["SloTargets"];
            /**
             * Deadline Met
             * @description null: none, or it is still to come
             */
            deadline_met: boolean | null;
            /**
             * Attainment Ratio
             * @description How far a service's goals are met now, by whoever divides its card; null: nobody does
             */
            attainment_ratio: number | null;
            /**
             * Weight
             * @description What it counts for beside its neighbours, where its card is divided
             */
            weight: number | null;
        };
        /** JobPage */
        JobPage: {
            /** Items */
            items: components["schemas"]["JobView"][];
            /**
             * Next
             * @description Cursor of the next page; null: this is the last one
             */
            next: string | null;
        };
        /** JobShare */
        JobShare: {
            /**
             * Sm
             * @description The part of the SMs that is held for it; null: none
             */
            sm: number | null;
            /**
             * Memory
             * @description Bytes, or a percentage of the card's; null: none was named
             */
            memory: number | string | null;
            /**
             * Isolation
             * @description shared or isolated
             */
            isolation: string;
        };
        /**
         * JobSource
         * @description The job as it was accepted.
         */
        JobSource: {
            /** Spec */
            spec: {
                [key: string]: unknown;
            };
        };
        /** JobView */
        JobView: {
            /** Id */
            id: string;
            /** Name */
            name: string;
            /** Tenant */
            tenant: string;
            /** User */
            user: string;
            /** Queue */
            queue: string;
            /** Group */
            group: string | null;
            /** State */
            state: string;
            /** Attempt */
            attempt: number;
            /** Priority */
            priority: string;
            /** Lane */
            lane: string;
            /** Gpus */
            gpus: number;
            /** @description What each task has of one card; null: whole cards or none, or not all tasks ask for the same */
            share: components["schemas"]["JobShare"] | null;
            /** Tasks */
            tasks: number;
            /** Submitted S */
            submitted_s: number;
            /** Started S */
            started_s: number | null;
            /** Ended S */
            ended_s: number | null;
            /** Cause */
            cause: string;
            /** Placement */
            placement: components["schemas"]["TaskPlace"][];
            result: components["schemas"]["TaskResult"] | null;
            progress: components["schemas"]["Progress"] | null;
            forecast: components["schemas"]["RunForecast"] | null;
            /** Retries Left */
            retries_left: number;
            /** Preemptions */
            preemptions: number;
            /** After */
            after: components["schemas"]["DependencyView"][];
        };
        /** LogPart */
        LogPart: {
            /** Task */
            task: number;
            /** Attempt */
            attempt: number;
            /** Offset */
            offset: number;
            /** Next */
            next: number;
            /** Text */
            text: string;
            /**
             * End
             * @description Nothing more will come
             */
            end: boolean;
        };
        /** Me */
        Me: {
            /** User */
            user: string;
            /** Tenant */
            tenant: string;
            /**
             * Role
             * @enum {string}
             */
            role: "admin" | "member" | "viewer";
            /** Scopes */
            scopes: string[];
            /** Is Admin */
            is_admin: boolean;
            token: components["schemas"]["TokenFacts"];
        };
        /**
         * ModelErrors
         * @description |predicted - real| in parts of the real figure.
         */
        ModelErrors: {
            /** Count */
            count: number;
            /** Median */
            median: number;
            /** P90 */
            p90: number;
            /** Mean */
            mean: number;
            /**
             * Bias
             * @description The mean with its sign: above 0, what was predicted is too fast
             */
            bias: number;
        };
        /**
         * MovedStart
         * @description A start now, and under the other policies.
         */
        MovedStart: {
            /** Job */
            job: string;
            /** Before S */
            before_s: number | null;
            /** After S */
            after_s: number | null;
        };
        /**
         * NeighbourView
         * @description Another job on the same card; of other tenants only that there is one, and what it costs.
         */
        NeighbourView: {
            /** Job */
            job: string | null;
            /** Name */
            name: string | null;
            /** User */
            user: string | null;
            /** App */
            app: string | null;
            /**
             * Sm Ratio
             * @description Its part of the SMs; null: no limit
             */
            sm_ratio: number | null;
            /** Memory Bytes */
            memory_bytes: number | null;
            /**
             * Speed Ratio
             * @description What this job has left beside it alone; null: not known
             */
            speed_ratio: number | null;
            /** Basis */
            basis: string | null;
        };
        /** NeighboursView */
        NeighboursView: {
            /** Job */
            job: string;
            /**
             * Cards
             * @description Empty: it is on no cards now
             */
            cards: components["schemas"]["SharedCard"][];
            /**
             * Expected Ratio
             * @description Of the slowest card: a gang is as fast as its slowest task
             */
            expected_ratio: number | null;
            /** Expected Slowdown */
            expected_slowdown: number | null;
            /**
             * Observed Ratio
             * @description Its steps a second since the company is the same, over those of such runs alone; null: not known
             */
            observed_ratio: number | null;
            /** Observed Slowdown */
            observed_slowdown: number | null;
            /** Steps Per S */
            steps_per_s: number | null;
            /** Alone Steps Per S */
            alone_steps_per_s: number | null;
        };
        /** NewTenant */
        NewTenant: {
            /**
             * Weight
             * @default 1
             */
            weight: number;
            /** Guaranteed Gpus */
            guaranteed_gpus?: number | null;
            /** Limit Gpus */
            limit_gpus?: number | null;
            /**
             * Reclaim S
             * @default 0
             */
            reclaim_s: number;
            /** Max Pending */
            max_pending?: number | null;
            /**
             * On Hang
             * @default warn
             * @enum {string}
             */
            on_hang: "warn" | "stop";
            /**
             * Run As
             * @description UID:GID the tasks run under, where the service is root
             */
            run_as?: string | null;
            /** Name */
            name: string;
        };
        /** NewToken */
        NewToken: {
            /** Id */
            id: string;
            /** User */
            user: string;
            /** Label */
            label: string;
            /** Scopes */
            scopes: string[];
            /** Created S */
            created_s: number;
            /** Expires S */
            expires_s: number | null;
            /** Revoked S */
            revoked_s: number | null;
            /** Last Used S */
            last_used_s: number | null;
            /**
             * Token
             * @description Shown this once
             */
            token: string;
        };
        /** NewUser */
        NewUser: {
            /**
             * Tenant
             * @default default
             */
            tenant: string;
            /**
             * Role
             * @default member
             * @enum {string}
             */
            role: "admin" | "member" | "viewer";
            /**
             * Disabled
             * @default false
             */
            disabled: boolean;
            /** Name */
            name: string;
        };
        /** NodeHours */
        NodeHours: {
            /** Node */
            node: string;
            hours: components["schemas"]["GpuHours"];
        };
        /** NodePage */
        NodePage: {
            /** Items */
            items: components["schemas"]["NodeView"][];
            /**
             * Next
             * @description Cursor of the next page; null: this is the last one
             */
            next: string | null;
        };
        /** NodeView */
        NodeView: {
            /** Id */
            id: string;
            /** Rack */
            rack: string;
            /** Up */
            up: boolean;
            /** Drained */
            drained: boolean;
            /** Cpu Milli */
            cpu_milli: number;
            /** Cpu Free Milli */
            cpu_free_milli: number;
            /** Memory Bytes */
            memory_bytes: number;
            /** Memory Free Bytes */
            memory_free_bytes: number;
            /** Cards */
            cards: components["schemas"]["CardView"][];
            /** Windows */
            windows: components["schemas"]["WindowView"][];
        };
        /** NoticePage */
        NoticePage: {
            /** Items */
            items: components["schemas"]["NoticeView"][];
            /**
             * Next
             * @description Cursor of the next page; null: this is the last one
             */
            next: string | null;
        };
        /** NoticeView */
        NoticeView: {
            /** Id */
            id: number;
            /** Rule */
            rule: number;
            /** Job */
            job: string;
            /** Kind */
            kind: string;
            /** Title */
            title: string;
            /** Tries */
            tries: number;
            /** Next S */
            next_s: number;
            /** State */
            state: string;
            /** Error */
            error: string;
            /** Created S */
            created_s: number;
        };
        /**
         * OfflineEstimate
         * @description What was worked out before it ran, by gpusquad estimate for example: how long it runs and what it holds.
         */
        OfflineEstimateSpec: {
            /**
             * Run
             * @description How long it runs, in the middle of what is expected.
             * @example 2h
             */
            run?: number | string | null;
            /**
             * Run high
             * @description The time within which nine runs of ten are expected to end.
             * @example 3h
             */
            run_high?: number | string | null;
            /**
             * Memory
             * @description The most memory of one card it will hold.
             * @example 12GiB
             */
            memory?: number | string | null;
            /**
             * By gpus
             * @description How long it runs with other numbers of GPUs in all.
             * @example {
             *       "1": "8h",
             *       "2": "4.5h",
             *       "4": "3h"
             *     }
             */
            by_gpus?: {
                [key: string]: number | string;
            } | null;
        };
        /**
         * PairView
         * @description What a workload has left beside another, neither being restricted. Not the same the other way round.
         */
        PairView: {
            /** Own */
            own: string;
            /** Other */
            other: string;
            /**
             * Speed Ratio
             * @description Of its speed alone; 0: they do not fit together
             */
            speed_ratio: number;
            /**
             * Slowdown
             * @description Times as long as alone; null: they do not fit together
             */
            slowdown: number | null;
            /**
             * Spread
             * @description How far the truth usually is from the ratio: one standard deviation
             */
            spread: number;
            /**
             * Source
             * @description learned: measured or predicted first, and corrected by what runs here
             * @enum {string}
             */
            source: "measured" | "learned" | "predicted";
            /**
             * Basis
             * @description What it stands on: measured, rows and columns, features, default
             */
            basis: string;
            /**
             * Watched S
             * @description How long such runs were watched
             */
            watched_s: number;
        };
        /**
         * PeakView
         * @description The most that one card will hold.
         */
        PeakView: {
            /** Mid Bytes */
            mid_bytes: number;
            /**
             * High Bytes
             * @description Nine runs of ten hold at most this
             */
            high_bytes: number;
            /** Source */
            source: string;
            /** Confidence */
            confidence: number;
        };
        /**
         * PlannedBar
         * @description A job that waits, as the plan replayed forward would start it. A forecast, not a promise.
         */
        PlannedBar: {
            /**
             * Job
             * @description null: a job of another tenant
             */
            job: string | null;
            /** Name */
            name: string | null;
            /** Tenant */
            tenant: string | null;
            /** Gpus */
            gpus: number;
            /** Position */
            position: number;
            /** Start S */
            start_s: number;
            /**
             * Start High S
             * @description If every gang needs the high end of its run time
             */
            start_high_s: number | null;
            /** End S */
            end_s: number | null;
            /** End High S */
            end_high_s: number | null;
            /** Cards */
            cards: string[];
        };
        /**
         * PolicyPoint
         * @description What decided from then on.
         */
        PolicyPoint: {
            /** At S */
            at_s: number;
            /** Revision */
            revision: number;
            /** Mode */
            mode: string | null;
            /** Settings */
            settings: {
                [key: string]: unknown;
            };
        };
        /**
         * PolicyRequest
         * @description What to change; what is left out stays as the mode has it.
         */
        PolicyRequest: {
            /** Mode */
            mode?: string | null;
            /** Order */
            order?: string | null;
            /** Plan */
            plan?: string | null;
            /** Place */
            place?: string | null;
            preemption?: components["schemas"]["PreemptionRequest"] | null;
            /**
             * Note
             * @default
             */
            note: string;
        };
        /** PolicyView */
        PolicyView: {
            /** Revision */
            revision: number;
            /** Mode */
            mode: string;
            /** Order */
            order: string;
            /** Plan */
            plan: string;
            /** Place */
            place: string;
            /**
             * Divide
             * @description How shared cards are divided that have no setting of their own
             */
            divide: string;
            /** Preemption */
            preemption: {
                [key: string]: unknown;
            };
            /** Modes */
            modes: string[];
            /** Since S */
            since_s: number;
            /** By */
            by: string;
            /** Note */
            note: string;
        };
        /** PredictionPoint */
        PredictionPoint: {
            /** Source */
            source: string;
            /** Predicted S */
            predicted_s: number;
            /** Truth S */
            truth_s: number;
        };
        /** PredictionSeriesView */
        PredictionSeriesView: {
            /** Since S */
            since_s: number;
            /** Until S */
            until_s: number;
            /** Span S */
            span_s: number;
            /**
             * Count
             * @description Runs looked at: the newest 50,000 at most
             */
            count: number;
            /**
             * Truncated
             * @description There are more: the time before the first point is not looked at
             */
            truncated: boolean;
            /** Lines */
            lines: components["schemas"]["CrossLine"][];
            /** Series */
            series: components["schemas"]["SeriesPoint"][];
            /**
             * Points
             * @description Evenly over the time; 2,000 at most
             */
            points: components["schemas"]["ForecastPoint"][];
        };
        /** PredictionsView */
        PredictionsView: {
            /** Since S */
            since_s: number;
            /**
             * Count
             * @description Runs looked at: the newest 50,000 at most
             */
            count: number;
            /** Tenants */
            tenants: components["schemas"]["ErrorLine"][];
            /** Sources */
            sources: components["schemas"]["ErrorLine"][];
            /** Calibration */
            calibration: components["schemas"]["CalibrationPoint"][];
            /** Points */
            points: components["schemas"]["PredictionPoint"][];
        };
        /** PreemptionRequest */
        PreemptionRequest: {
            /** By */
            by?: string | null;
            /** Min Run S */
            min_run_s?: number | null;
            /** Most Per Job */
            most_per_job?: number | null;
        };
        /** PreviewView */
        PreviewView: {
            /** Starts */
            starts: string[];
            /** Preempted */
            preempted: string[];
            /** Moved */
            moved: components["schemas"]["MovedStart"][];
        };
        /**
         * Profile
         * @description What the job is expected to use of a card: a hint for placing it, not a limit.
         */
        ProfileSpec: {
            /**
             * Utilisation
             * @description Part of the time the card is busy.
             * @example 0.4
             * @example 40%
             */
            utilisation?: number | string | null;
            /**
             * Memory
             * @description Memory of the card it really uses.
             * @example 6GiB
             */
            memory?: number | string | null;
            /**
             * Bandwidth
             * @description Part of the memory bandwidth it uses.
             * @example 0.3
             */
            bandwidth?: number | string | null;
            /**
             * Source
             * @description Where these numbers come from.
             * @default declared
             * @example measured
             * @enum {string}
             */
            source: "declared" | "measured" | "predicted";
        };
        /** Progress */
        Progress: {
            /** Step */
            step: number | null;
            /** Total */
            total: number | null;
            /** Ratio */
            ratio: number | null;
            /** At S */
            at_s: number | null;
        };
        /** QueuePage */
        QueuePage: {
            /** Items */
            items: components["schemas"]["QueuedView"][];
            /**
             * Running
             * @description On the first page only
             */
            running: components["schemas"]["JobView"][];
            /** Counts */
            counts: {
                [key: string]: number;
            };
            /**
             * Next
             * @description Cursor of the next page; null: this is the last one
             */
            next: string | null;
        };
        /** QueuedView */
        QueuedView: {
            /** Id */
            id: string;
            /** Name */
            name: string;
            /** Tenant */
            tenant: string;
            /** User */
            user: string;
            /** Queue */
            queue: string;
            /** Group */
            group: string | null;
            /** State */
            state: string;
            /** Attempt */
            attempt: number;
            /** Priority */
            priority: string;
            /** Lane */
            lane: string;
            /** Gpus */
            gpus: number;
            /** @description What each task has of one card; null: whole cards or none, or not all tasks ask for the same */
            share: components["schemas"]["JobShare"] | null;
            /** Tasks */
            tasks: number;
            /** Submitted S */
            submitted_s: number;
            /** Started S */
            started_s: number | null;
            /** Ended S */
            ended_s: number | null;
            /** Cause */
            cause: string;
            /** Placement */
            placement: components["schemas"]["TaskPlace"][];
            result: components["schemas"]["TaskResult"] | null;
            progress: components["schemas"]["Progress"] | null;
            forecast: components["schemas"]["RunForecast"] | null;
            /** Retries Left */
            retries_left: number;
            /** Preemptions */
            preemptions: number;
            /** After */
            after: components["schemas"]["DependencyView"][];
            /** Position */
            position: number;
            /** Eta S */
            eta_s: number | null;
            /**
             * Eta High S
             * @description By then in nine of ten cases; null where only eta_s is known
             */
            eta_high_s: number | null;
            /** Promised S */
            promised_s: number | null;
            reason: components["schemas"]["ShortReason"] | null;
        };
        /** ReasonView */
        ReasonView: {
            /** Code */
            code: string;
            /** Message */
            message: string;
            /** Cure */
            cure: string;
            /** Numbers */
            numbers: {
                [key: string]: number | null;
            };
            /** Who */
            who: string[];
        };
        /** RecommendView */
        RecommendView: {
            /** Advice */
            advice: components["schemas"]["AdviceLine"][];
            /** Times */
            times: components["schemas"]["TimesView"][];
            memory: components["schemas"]["PeakView"] | null;
            /** @description Null: no run of that kind is known */
            evidence: components["schemas"]["EvidenceView"] | null;
            /** Notes */
            notes: string[];
            /** Warnings */
            warnings: string[];
            /**
             * Missing
             * @description What would give evidence where there is none
             */
            missing: string[];
            /**
             * Jobs
             * @description Jobs the file makes; the answer is about the first
             */
            jobs: number;
        };
        /**
         * ReservationView
         * @description A start that was promised to a job that waits.
         */
        ReservationView: {
            /**
             * Job
             * @description null: a job of another tenant
             */
            job: string | null;
            /** Name */
            name: string | null;
            /** Tenant */
            tenant: string | null;
            /** Gpus */
            gpus: number;
            /** Start S */
            start_s: number;
            /**
             * Latest S
             * @description As it was first promised, from pessimistic run times
             */
            latest_s: number;
            /** End S */
            end_s: number | null;
            /**
             * Cards
             * @description Empty while counting cards is enough
             */
            cards: string[];
        };
        /**
         * Retry
         * @description Whether a job that did not succeed is tried again.
         */
        RetrySpec: {
            /**
             * Count
             * @description How many times at most.
             * @example 3
             */
            count: number | string;
            /**
             * Backoff
             * @description How long to wait before it is tried again.
             * @default 10s
             * @example 10s
             * @example 1m
             */
            backoff: number | string;
            /**
             * On
             * @description After which ends: failed (a task did not end well), lost (its node or its end was not seen).
             * @default [
             *       "failed",
             *       "lost"
             *     ]
             * @example [
             *       "lost"
             *     ]
             * @example [
             *       "failed",
             *       "lost"
             *     ]
             */
            on: ("failed" | "lost")[];
        };
        /** Revision */
        Revision: {
            /** Revision */
            revision: number;
            /** At S */
            at_s: number;
            /** By */
            by: string;
            /** Settings */
            settings: {
                [key: string]: unknown;
            };
            /** Note */
            note: string;
        };
        /** RevisionPage */
        RevisionPage: {
            /** Items */
            items: components["schemas"]["Revision"][];
            /**
             * Next
             * @description Cursor of the next page; null: this is the last one
             */
            next: string | null;
        };
        /**
         * Role
         * @description Some of the tasks of a job: those that do the same and ask for the same.
         */
        RoleSpec: {
            /**
             * Gpus
             * @description Whole GPUs for each task; auto: chosen by past runs.
             * @example 1
             * @example 8
             * @example auto
             */
            gpus?: number | "auto" | string | null;
            /**
             * Count
             * @description How many equal tasks. They start together or not at all.
             * @example 1
             * @example 4
             */
            count?: number | string | null;
            /**
             * Min
             * @description An elastic job may start with as few tasks as this.
             * @example 2
             */
            min?: number | string | null;
            /**
             * Max
             * @description An elastic job may grow to as many tasks as this.
             * @example 8
             */
            max?: number | string | null;
            /**
             * Share
             * @description A part of one GPU for each task, instead of gpus.
             * @example {
             *       "memory": "10GiB",
             *       "sm": 0.25
             *     }
             */
            share?: components["schemas"]["ShareSpec"] | null;
            /**
             * CPU
             * @description Processor cores for each task.
             * @example 4
             * @example 0.5
             * @example 500m
             */
            cpu?: number | string | null;
            /**
             * Memory
             * @description Main memory for each task.
             * @example 16GiB
             */
            memory?: number | string | null;
            /**
             * GPU model
             * @description A model of card, or several of which any will do.
             * @example H100
             * @example [
             *       "A100",
             *       "H100"
             *     ]
             */
            gpu_model?: string | string[] | null;
            /**
             * GPU memory
             * @description With gpus: the least memory a card must have; auto: chosen by past runs.
             * @example 40GiB
             * @example auto
             */
            gpu_memory?: number | string | "auto" | null;
            /**
             * Card
             * @description One card by its id, with gpus: 1 or a share.
             * @example node-1/gpu-0
             */
            card?: string | null;
            /**
             * Name
             * @description What these tasks are called.
             * @example worker
             */
            name: string;
            /**
             * Command
             * @description What they run. Left out: the command of the job.
             * @example [
             *       "python3",
             *       "worker.py"
             *     ]
             */
            command?: string | string[] | null;
            /**
             * Env
             * @description Variables for these tasks, on top of those of the job.
             * @example {
             *       "OMP_NUM_THREADS": "4"
             *     }
             */
            env?: {
                [key: string]: string;
            };
        };
        /** RulePage */
        RulePage: {
            /** Items */
            items: components["schemas"]["RuleView"][];
            /**
             * Next
             * @description Cursor of the next page; null: this is the last one
             */
            next: string | null;
        };
        /** RuleRequest */
        RuleRequest: {
            /** Kinds */
            kinds: string[];
            /** Url */
            url: string;
            /**
             * Label
             * @default
             */
            label: string;
        };
        /** RuleView */
        RuleView: {
            /** Id */
            id: number;
            /** User */
            user: string;
            /** Kinds */
            kinds: string[];
            /**
             * Url
             * @description Without its secrets
             */
            url: string;
            /** Label */
            label: string;
            /** Created S */
            created_s: number;
        };
        /**
         * RunForecast
         * @description How long a run is expected to take.
         */
        RunForecast: {
            /** Mid S */
            mid_s: number | null;
            /** High S */
            high_s: number | null;
            /** Source */
            source: string;
            /**
             * Confidence
             * @description 0: a guess. 1: as good as measured. null: not known
             */
            confidence: number | null;
        };
        /**
         * RunTimeRecord
         * @description How good the latest predictions of this kind were, for the job's tenant.
         */
        RunTimeRecord: {
            /** Count */
            count: number;
            /**
             * Within Ratio
             * @description Runs that ended by the high end of their prediction
             */
            within_ratio: number;
            /**
             * Median Ratio
             * @description Half of the predictions were this near, in parts of the truth
             */
            median_ratio: number;
        };
        /** SamplePage */
        SamplePage: {
            /** Items */
            items: components["schemas"]["SampleView"][];
            /**
             * Next
             * @description Cursor of the next page; null: this is the last one
             */
            next: string | null;
        };
        /**
         * SampleView
         * @description One look at a card, or the means over a span. null: the card does not tell.
         */
        SampleView: {
            /** At S */
            at_s: number;
            /** Utilisation Ratio */
            utilisation_ratio: number | null;
            /** Memory Utilisation Ratio */
            memory_utilisation_ratio: number | null;
            /** Memory Used Bytes */
            memory_used_bytes: number | null;
            /** Power W */
            power_w: number | null;
            /** Temperature C */
            temperature_c: number | null;
            /** Sm Clock Mhz */
            sm_clock_mhz: number | null;
        };
        /** SecretPage */
        SecretPage: {
            /** Items */
            items: components["schemas"]["SecretView"][];
            /**
             * Next
             * @description Cursor of the next page; null: this is the last one
             */
            next: string | null;
        };
        /** SecretRequest */
        SecretRequest: {
            /** Value */
            value: string;
        };
        /**
         * Secret
         * @description A secret by its name; the value is kept by the service and never stands in a job file.
         */
        SecretSpec: {
            /**
             * Name
             * @description Its name in the service.
             * @example wandb-key
             */
            name: string;
            /**
             * Variable
             * @description The variable that holds the value. Left out: called like the secret.
             * @example WANDB_API_KEY
             */
            as?: string | null;
        };
        /** SecretView */
        SecretView: {
            /** Name */
            name: string;
        };
        /**
         * SeriesPoint
         * @description Runs of one source that ended within a span; spans without any are left out.
         */
        SeriesPoint: {
            /** At S */
            at_s: number;
            /** Source */
            source: string;
            /** Count */
            count: number;
            /** Median Ratio */
            median_ratio: number | null;
            /** Within P90 */
            within_p90: number | null;
            /** Bias */
            bias: number | null;
        };
        /**
         * Share
         * @description A part of one card.
         */
        ShareSpec: {
            /**
             * Memory
             * @description Memory of the card for this task; left out: as large a part of it as of the multiprocessors.
             * @example 10GiB
             * @example 8GB
             * @example 30%
             */
            memory?: number | string | null;
            /**
             * SM
             * @description Part of the card's multiprocessors; left out: whatever is free.
             * @example 0.25
             * @example 25%
             */
            sm?: number | string | null;
            /**
             * Isolation
             * @description shared: runs beside others, and a fault of one can reach them; isolated: takes turns with them.
             * @default shared
             * @example isolated
             * @enum {string}
             */
            isolation: "shared" | "isolated";
        };
        /** SharedCard */
        SharedCard: {
            /** Card */
            card: string;
            /** Node */
            node: string;
            /** Gpu */
            gpu: string;
            /** Neighbours */
            neighbours: components["schemas"]["NeighbourView"][];
            /**
             * Speed Ratio
             * @description Expected beside all of them, over alone; null: not known
             */
            speed_ratio: number | null;
        };
        /** ShortReason */
        ShortReason: {
            /** Code */
            code: string;
            /** Message */
            message: string;
        };
        /**
         * Slo
         * @description A goal: a deadline for a batch job; latency, throughput and availability for a service.
         */
        SloSpec: {
            /**
             * Deadline
             * @description When it should be done, counted from its submission.
             * @example 6h
             */
            deadline?: number | string | null;
            /**
             * Latency
             * @description Time within which 99 of 100 requests are answered. May be written as p99.
             * @example 20ms
             */
            latency?: number | string | null;
            /**
             * Throughput
             * @description Requests or steps a second.
             * @example 100
             * @example 100/s
             */
            throughput?: number | string | null;
            /**
             * Availability
             * @description Part of the time in which the service answers.
             * @example 99.9%
             * @example 0.999
             */
            availability?: number | string | null;
        };
        /**
         * SloTargets
         * @description null: that is no part of the goal.
         */
        SloTargets: {
            /**
             * Deadline S
             * @description The instant
             */
            deadline_s: number | null;
            /** Latency S */
            latency_s: number | null;
            /** Throughput Per S */
            throughput_per_s: number | null;
            /** Availability Ratio */
            availability_ratio: number | null;
        };
        /**
         * SoloView
         * @description A workload alone on a card.
         */
        SoloView: {
            steps_per_s: components["schemas"]["IntervalView"];
            /** Curve */
            curve: components["schemas"]["CurvePoint"][];
            /** Utilisation Ratio */
            utilisation_ratio: number;
            /** Bandwidth Ratio */
            bandwidth_ratio: number;
            /** Memory Bytes */
            memory_bytes: number;
            /** Power W */
            power_w: number;
        };
        /** Story */
        Story: {
            /** Items */
            items: components["schemas"]["StoryLine"][];
            /**
             * Next
             * @description Cursor of the next page; null: this is the last one
             */
            next: string | null;
        };
        /** StoryLine */
        StoryLine: {
            /** Id */
            id: number;
            /** At S */
            at_s: number;
            /** Kind */
            kind: string;
            /** State */
            state: string;
            /** Attempt */
            attempt: number;
            /** Cause */
            cause: string;
            /** Actor */
            actor: string;
            /** Data */
            data: unknown;
        };
        /**
         * StrangerNow
         * @description A process on the card that nothing holds: of no job, or without the library.
         */
        StrangerNow: {
            /** Pid */
            pid: number;
            /** Name */
            name: string;
            /** Memory Bytes */
            memory_bytes: number;
        };
        /** SubmissionAnswer */
        SubmissionAnswer: {
            /** Chosen */
            chosen: string[];
            /** Warnings */
            warnings: string[];
            /** Group */
            group: string | null;
            /** Jobs */
            jobs: components["schemas"]["JobView"][];
        };
        /** TaskPlace */
        TaskPlace: {
            /** Task */
            task: number;
            /** Node */
            node: string;
            /** Cards */
            cards: string[];
        };
        /**
         * TaskResult
         * @description The task that ended the gang.
         */
        TaskResult: {
            /** Task */
            task: number | null;
            /** Exit Code */
            exit_code: number | null;
            /** Signal */
            signal: number | null;
            /** Oom */
            oom: boolean;
        };
        /** TenantGoals */
        TenantGoals: {
            /** Tenant */
            tenant: string;
            /**
             * Weight
             * @description Of the tenant; null: it is gone
             */
            weight: number | null;
            /**
             * Jobs
             * @description With a goal, not over or ended within the time
             */
            jobs: number;
            /** Deadlines Met */
            deadlines_met: number;
            /** Deadlines Missed */
            deadlines_missed: number;
            /**
             * Deadline Ratio
             * @description Met of those judged; null: none was
             */
            deadline_ratio: number | null;
            /**
             * Attainment Ratio
             * @description Mean of its services now; null: none is told of
             */
            attainment_ratio: number | null;
        };
        /**
         * TenantNow
         * @description One of those who share a card. Of other tenants' jobs: only what room they take.
         */
        TenantNow: {
            /** Job */
            job: string | null;
            /** Name */
            name: string | null;
            /** User */
            user: string | null;
            /**
             * Id
             * @description As the card's daemon calls it; for administrators
             */
            id: string | null;
            /**
             * Groups
             * @description SM groups it may use; 0: all of them
             */
            groups: number;
            /**
             * Sm Ratio
             * @description These groups as a part of all; null: not known
             */
            sm_ratio: number | null;
            /** Used Bytes */
            used_bytes: number;
            /**
             * Quota Bytes
             * @description 0: no limit
             */
            quota_bytes: number;
            /** Peak Bytes */
            peak_bytes: number | null;
            /** Weight */
            weight: number | null;
            /** Priority */
            priority: number | null;
            /** Slo */
            slo: {
                [key: string]: unknown;
            } | null;
            /**
             * Attainment Ratio
             * @description How far its goals were met of late; 1: all
             */
            attainment_ratio: number | null;
            /**
             * Credit Us
             * @description GPU time it may still use in this squad; null: it is not held back
             */
            credit_us: number | null;
            /**
             * Waiting
             * @description Of its processes, those that wait for credit now
             */
            waiting: number | null;
            /** Waited S */
            waited_s: number | null;
            /** Is Idle */
            is_idle: boolean | null;
            /** Processes */
            processes: number | null;
            /**
             * Iterations Per S
             * @description As its launches repeat; null: no iteration was found in them
             */
            iterations_per_s: number | null;
            /**
             * Isolation
             * @description shared or isolated; empty: not known
             */
            isolation: string;
            /** Note */
            note: string;
        };
        /** TenantPage */
        TenantPage: {
            /** Items */
            items: components["schemas"]["TenantView"][];
            /**
             * Next
             * @description Cursor of the next page; null: this is the last one
             */
            next: string | null;
        };
        /** TenantRequest */
        TenantRequest: {
            /**
             * Weight
             * @default 1
             */
            weight: number;
            /** Guaranteed Gpus */
            guaranteed_gpus?: number | null;
            /** Limit Gpus */
            limit_gpus?: number | null;
            /**
             * Reclaim S
             * @default 0
             */
            reclaim_s: number;
            /** Max Pending */
            max_pending?: number | null;
            /**
             * On Hang
             * @default warn
             * @enum {string}
             */
            on_hang: "warn" | "stop";
            /**
             * Run As
             * @description UID:GID the tasks run under, where the service is root
             */
            run_as?: string | null;
        };
        /** TenantView */
        TenantView: {
            /** Name */
            name: string;
            /** Weight */
            weight: number;
            /** Guaranteed Gpus */
            guaranteed_gpus: number | null;
            /** Limit Gpus */
            limit_gpus: number | null;
            /** Reclaim S */
            reclaim_s: number;
            /** Max Pending */
            max_pending: number | null;
            /** On Hang */
            on_hang: string;
            /** Run As */
            run_as: string | null;
        };
        /**
         * TestRequest
         * @description Which channel to try.
         */
        TestRequest: {
            /** Rule */
            rule?: number | null;
            /** Url */
            url?: string | null;
        };
        /** TestResult */
        TestResult: {
            /** Ok */
            ok: boolean;
            /** Error */
            error: string;
        };
        /** TimelineView */
        TimelineView: {
            /** Now S */
            now_s: number;
            /** From S */
            from_s: number;
            /** To S */
            to_s: number;
            /** Bars */
            bars: components["schemas"]["Bar"][];
            /**
             * Truncated
             * @description There are more bars than are shown, or than were looked at
             */
            truncated: boolean;
            /** Reservations */
            reservations: components["schemas"]["ReservationView"][];
            /** Planned */
            planned: components["schemas"]["PlannedBar"][];
            /**
             * Planned At S
             * @description When the plan was worked out; null: not yet, or too many wait
             */
            planned_at_s: number | null;
            /**
             * Planned Unknown
             * @description Jobs that wait and start later than was looked ahead
             */
            planned_unknown: number;
            /** Windows */
            windows: components["schemas"]["WindowView"][];
        };
        /**
         * TimesView
         * @description The run time with so many GPUs.
         */
        TimesView: {
            /** Gpus */
            gpus: number;
            /**
             * Low S
             * @description One run of ten is over by then
             */
            low_s: number;
            /** Mid S */
            mid_s: number;
            /**
             * High S
             * @description Nine runs of ten are over by then
             */
            high_s: number;
            /**
             * Efficiency Ratio
             * @description What each GPU brings, against one alone
             */
            efficiency_ratio: number;
            /** Source */
            source: string;
            /** Confidence */
            confidence: number;
        };
        /** TokenFacts */
        TokenFacts: {
            /** Id */
            id: string;
            /** Label */
            label: string;
            /** Expires S */
            expires_s: number | null;
        };
        /** TokenPage */
        TokenPage: {
            /** Items */
            items: components["schemas"]["TokenView"][];
            /**
             * Next
             * @description Cursor of the next page; null: this is the last one
             */
            next: string | null;
        };
        /** TokenRequest */
        TokenRequest: {
            /**
             * Label
             * @default
             */
            label: string;
            /**
             * User
             * @description Whose; null: one's own. For others only an administrator may
             */
            user?: string | null;
            /**
             * Scopes
             * @description null: all one has oneself
             */
            scopes?: ("read" | "submit" | "admin")[] | null;
            /**
             * Expires S
             * @description Seconds since 1970; null: as long as the token that asks
             */
            expires_s?: number | null;
        };
        /** TokenView */
        TokenView: {
            /** Id */
            id: string;
            /** User */
            user: string;
            /** Label */
            label: string;
            /** Scopes */
            scopes: string[];
            /** Created S */
            created_s: number;
            /** Expires S */
            expires_s: number | null;
            /** Revoked S */
            revoked_s: number | null;
            /** Last Used S */
            last_used_s: number | null;
        };
        /** UsageLine */
        UsageLine: {
            /** Key */
            key: string;
            /** Tenant */
            tenant: string;
            /** Gpu Hours */
            gpu_hours: number;
            /** Jobs */
            jobs: number;
            /** Attempts */
            attempts: number;
        };
        /** UsagePage */
        UsagePage: {
            /** Items */
            items: components["schemas"]["UsageLine"][];
            /**
             * Next
             * @description Cursor of the next page; null: this is the last one
             */
            next: string | null;
        };
        /**
         * UseView
         * @description How busy a run kept each of its cards.
         */
        UseView: {
            /** Job */
            job: string;
            /** Busy Ratios */
            busy_ratios: number[];
        };
        /** UserChange */
        UserChange: {
            /** Tenant */
            tenant?: string | null;
            /** Role */
            role?: ("admin" | "member" | "viewer") | null;
            /** Disabled */
            disabled?: boolean | null;
        };
        /** UserPage */
        UserPage: {
            /** Items */
            items: components["schemas"]["UserView"][];
            /**
             * Next
             * @description Cursor of the next page; null: this is the last one
             */
            next: string | null;
        };
        /** UserView */
        UserView: {
            /** Name */
            name: string;
            /** Tenant */
            tenant: string;
            /**
             * Role
             * @enum {string}
             */
            role: "admin" | "member" | "viewer";
            /** Disabled */
            disabled: boolean;
        };
        /** WhatIfView */
        WhatIfView: {
            /** Chosen */
            chosen: string[];
            /** Warnings */
            warnings: string[];
            refused: components["schemas"]["ReasonView"] | null;
            /** Starts Now */
            starts_now: boolean;
            /** Start S */
            start_s: number | null;
            /** High S */
            high_s: number | null;
            /** Promised S */
            promised_s: number | null;
            run: components["schemas"]["RunForecast"] | null;
            /** Placement */
            placement: components["schemas"]["TaskPlace"][];
            /**
             * Reasons
             * @description Everything that would keep it waiting; empty if it would start now
             */
            reasons: components["schemas"]["ReasonView"][];
            /** Delayed */
            delayed: components["schemas"]["Delay"][];
            /** Preempted */
            preempted: string[];
            /**
             * Others
             * @description Jobs of other tenants that would be delayed or preempted
             */
            others: number;
            /**
             * Jobs
             * @description Jobs the file makes; the answer is about the first
             */
            jobs: number;
        };
        /** WhenView */
        WhenView: {
            /** State */
            state: string;
            /** Start S */
            start_s: number | null;
            /** High S */
            high_s: number | null;
            /** Promised S */
            promised_s: number | null;
            run: components["schemas"]["RunForecast"] | null;
            run_record: components["schemas"]["RunTimeRecord"] | null;
            end: components["schemas"]["End"] | null;
            /** Position */
            position: number | null;
            accuracy: components["schemas"]["AccuracyView"] | null;
        };
        /** WhyView */
        WhyView: {
            /** State */
            state: string;
            /** Position */
            position: number | null;
            /** Reasons */
            reasons: components["schemas"]["ReasonView"][];
        };
        /** WindowPage */
        WindowPage: {
            /** Items */
            items: components["schemas"]["WindowView"][];
            /**
             * Next
             * @description Cursor of the next page; null: this is the last one
             */
            next: string | null;
        };
        /** WindowRequest */
        WindowRequest: {
            /** Nodes */
            nodes: string[];
            /** Start S */
            start_s: number;
            /** End S */
            end_s?: number | null;
            /**
             * Cause
             * @default
             */
            cause: string;
        };
        /** WindowView */
        WindowView: {
            /** Id */
            id: string;
            /** Nodes */
            nodes: string[];
            /** Start S */
            start_s: number;
            /** End S */
            end_s: number | null;
            /** By */
            by: string;
            /** Cause */
            cause: string;
        };
        /** WorkloadView */
        WorkloadView: {
            /** Name */
            name: string;
            /** @description null: it was never measured alone */
            solo: components["schemas"]["SoloView"] | null;
        };
        /** ErrorView */
        ErrorView: {
            /** Code */
            code: string;
            /** Message */
            message: string;
            /** Field */
            field: string;
            /** Cure */
            cure: string;
            /** @default null */
            reason: components["schemas"]["ReasonView"] | null;
            /**
             * Id
             * @description Of an unexpected error: what to look for in the log
             * @default null
             */
            id: string | null;
        };
        /** ErrorBody */
        ErrorBody: {
            error: components["schemas"]["ErrorView"];
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    list_jobs: {
        parameters: {
            query?: {
                /** @description One or several, repeated or with commas */
                state?: string[];
                tenant?: string | null;
                user?: string | null;
                name?: string | null;
                group?: string | null;
                text?: string | null;
                /** @description Seconds since 1970 */
                since_s?: number | null;
                /** @description Seconds since 1970 */
                until_s?: number | null;
                sort?: "-submitted" | "submitted" | "-ended";
                /** @description Rows on this page */
                limit?: number;
                /** @description `next` of the page before */
                cursor?: string | null;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobPage"];
                };
            };
        };
    };
    submit_jobs: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key of the same user is one submission, however often it is sent */
                "Idempotency-Key"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["FileRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SubmissionAnswer"];
                };
            };
        };
    };
    get_job: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id, the beginning or end of one, or a unique name */
                job: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobDetail"];
                };
            };
        };
    };
    change_job: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id, the beginning or end of one, or a unique name */
                job: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ChangeRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ChangedJob"];
                };
            };
        };
    };
    get_job_source: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id, the beginning or end of one, or a unique name */
                job: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobSource"];
                };
            };
        };
    };
    cancel_job: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id, the beginning or end of one, or a unique name */
                job: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["CauseRequest"] | null;
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobView"];
                };
            };
        };
    };
    hold_job: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id, the beginning or end of one, or a unique name */
                job: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobView"];
                };
            };
        };
    };
    release_job: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id, the beginning or end of one, or a unique name */
                job: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobView"];
                };
            };
        };
    };
    resubmit_job: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key of the same user is one submission, however often it is sent */
                "Idempotency-Key"?: string | null;
            };
            path: {
                /** @description Id, the beginning or end of one, or a unique name */
                job: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SubmissionAnswer"];
                };
            };
        };
    };
    why_job: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id, the beginning or end of one, or a unique name */
                job: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WhyView"];
                };
            };
        };
    };
    when_job: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id, the beginning or end of one, or a unique name */
                job: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WhenView"];
                };
            };
        };
    };
    what_if: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["FileRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WhatIfView"];
                };
            };
        };
    };
    job_story: {
        parameters: {
            query?: {
                /** @description Rows on this page */
                limit?: number;
                cursor?: number;
            };
            header?: never;
            path: {
                /** @description Id, the beginning or end of one, or a unique name */
                job: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Story"];
                };
            };
        };
    };
    job_of_pod: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                namespace: string;
                pod: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobView"];
                };
            };
        };
    };
    recommend: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["FileRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RecommendView"];
                };
            };
        };
    };
    read_logs: {
        parameters: {
            query?: {
                task?: number;
                attempt?: number | null;
                offset?: number | null;
                /** @description Begin with so many last lines */
                tail?: number | null;
                /** @description Bytes */
                limit?: number;
            };
            header?: never;
            path: {
                /** @description Id, the beginning or end of one, or a unique name */
                job: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LogPart"];
                };
            };
        };
    };
    stream_logs: {
        parameters: {
            query?: {
                task?: string;
                /** @description Begin with so many last lines */
                tail?: number | null;
            };
            header?: {
                /** @description Go on behind this event */
                "last-event-id"?: string | null;
            };
            path: {
                /** @description Id, the beginning or end of one, or a unique name */
                job: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Events log and end */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": string;
                };
            };
        };
    };
    get_queue: {
        parameters: {
            query?: {
                tenant?: string | null;
                /** @description Rows on this page */
                limit?: number;
                /** @description `next` of the page before */
                cursor?: string | null;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["QueuePage"];
                };
            };
        };
    };
    get_cluster: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ClusterView"];
                };
            };
        };
    };
    list_nodes: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NodePage"];
                };
            };
        };
    };
    drain_node: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                node: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["CauseRequest"] | null;
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Done"];
                };
            };
        };
    };
    undrain_node: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                node: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Done"];
                };
            };
        };
    };
    cordon_card: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description As in node0/3 */
                card: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["CauseRequest"] | null;
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Done"];
                };
            };
        };
    };
    uncordon_card: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description As in node0/3 */
                card: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Done"];
                };
            };
        };
    };
    list_samples: {
        parameters: {
            query?: {
                /** @description Seconds since 1970 */
                since_s?: number | null;
                /** @description Seconds since 1970 */
                until_s?: number | null;
                /** @description Means over such spans */
                every_s?: number;
            };
            header?: never;
            path: {
                /** @description As in node0/3 */
                card: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SamplePage"];
                };
            };
        };
    };
    list_windows: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WindowPage"];
                };
            };
        };
    };
    add_window: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["WindowRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WindowView"];
                };
            };
        };
    };
    remove_window: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                window: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    list_cards: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CardDivisionPage"];
                };
            };
        };
    };
    set_card_divide: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id or UUID, the beginning of one, or the place: node0/3, or 3 where there is one node */
                card: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["DivideRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CardDivision"];
                };
            };
        };
    };
    list_card_divides: {
        parameters: {
            query?: {
                /** @description Rows on this page */
                limit?: number;
            };
            header?: never;
            path: {
                /** @description Id or UUID, the beginning of one, or the place: node0/3, or 3 where there is one node */
                card: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DivideRevisionPage"];
                };
            };
        };
    };
    get_card: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id or UUID, the beginning of one, or the place: node0/3, or 3 where there is one node */
                card: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CardDetail"];
                };
            };
        };
    };
    get_policy: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PolicyView"];
                };
            };
        };
    };
    set_policy: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PolicyRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PolicyView"];
                };
            };
        };
    };
    list_revisions: {
        parameters: {
            query?: {
                /** @description Rows on this page */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RevisionPage"];
                };
            };
        };
    };
    preview_policy: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PolicyRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PreviewView"];
                };
            };
        };
    };
    get_usage: {
        parameters: {
            query?: {
                by?: "tenant" | "user" | "job";
                /** @description Seconds since 1970 */
                since_s?: number | null;
                /** @description Seconds since 1970 */
                until_s?: number | null;
                /** @description Rows on this page */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UsagePage"];
                };
            };
        };
    };
    get_predictions: {
        parameters: {
            query?: {
                tenant?: string | null;
                /** @description Seconds since 1970 */
                since_s?: number | null;
                /** @description Predictions to draw, with their truths */
                points?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PredictionsView"];
                };
            };
        };
    };
    stream_events: {
        parameters: {
            query?: {
                /** @description The last event known; none: only new ones */
                after?: number | null;
            };
            header?: {
                /** @description The same, sent again */
                "last-event-id"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Events of the kind job */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": string;
                };
            };
        };
    };
    get_me: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Me"];
                };
            };
        };
    };
    list_tenants: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TenantPage"];
                };
            };
        };
    };
    add_tenant: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewTenant"];
            };
        };
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TenantView"];
                };
            };
        };
    };
    put_tenant: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["TenantRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TenantView"];
                };
            };
        };
    };
    list_users: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UserPage"];
                };
            };
        };
    };
    add_user: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewUser"];
            };
        };
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UserView"];
                };
            };
        };
    };
    change_user: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["UserChange"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UserView"];
                };
            };
        };
    };
    list_tokens: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TokenPage"];
                };
            };
        };
    };
    add_token: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["TokenRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NewToken"];
                };
            };
        };
    };
    revoke_token: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                token: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    list_audit: {
        parameters: {
            query?: {
                actor?: string | null;
                action?: string | null;
                target?: string | null;
                /** @description Seconds since 1970 */
                since_s?: number | null;
                /** @description Seconds since 1970 */
                until_s?: number | null;
                /** @description Rows on this page */
                limit?: number;
                /** @description `next` of the page before */
                cursor?: string | null;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuditPage"];
                };
            };
        };
    };
    list_secrets: {
        parameters: {
            query?: {
                tenant?: string | null;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SecretPage"];
                };
            };
        };
    };
    put_secret: {
        parameters: {
            query?: {
                tenant?: string | null;
            };
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SecretRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SecretView"];
                };
            };
        };
    };
    remove_secret: {
        parameters: {
            query?: {
                tenant?: string | null;
            };
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    list_rules: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RulePage"];
                };
            };
        };
    };
    add_rule: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["RuleRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RuleView"];
                };
            };
        };
    };
    remove_rule: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                rule: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    list_outbox: {
        parameters: {
            query?: {
                state?: ("waiting" | "sent" | "dead") | null;
                /** @description Rows on this page */
                limit?: number;
                /** @description `next` of the page before */
                cursor?: string | null;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NoticePage"];
                };
            };
        };
    };
    test_notice: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["TestRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TestResult"];
                };
            };
        };
    };
    retry_notice: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                notice: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Done"];
                };
            };
        };
    };
    get_job_schema: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        [key: string]: unknown;
                    };
                };
            };
        };
    };
    get_timeline: {
        parameters: {
            query?: {
                /** @description Seconds since 1970 */
                from_s?: number | null;
                /** @description Seconds since 1970 */
                to_s?: number | null;
                node?: string | null;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TimelineView"];
                };
            };
        };
    };
    get_efficiency: {
        parameters: {
            query?: {
                /** @description Looked back */
                hours?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EfficiencyView"];
                };
            };
        };
    };
    get_free: {
        parameters: {
            query?: {
                gpus?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FreeView"];
                };
            };
        };
    };
    get_interference: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InterferenceView"];
                };
            };
        };
    };
    job_neighbours: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id, the beginning or end of one, or a unique name */
                job: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NeighboursView"];
                };
            };
        };
    };
    get_goals: {
        parameters: {
            query?: {
                /** @description Looked back */
                hours?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["GoalsView"];
                };
            };
        };
    };
    get_prediction_series: {
        parameters: {
            query?: {
                tenant?: string | null;
                source?: string | null;
                /** @description Seconds since 1970 */
                since_s?: number | null;
                /** @description Points in time of the series */
                spans?: number;
                /** @description Predictions to draw, with their truths */
                points?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PredictionSeriesView"];
                };
            };
        };
    };
    healthz: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["HealthView"];
                };
            };
        };
    };
    readyz: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["HealthView"];
                };
            };
        };
    };
    metrics: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description For Prometheus */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/plain": string;
                };
            };
        };
    };
}
