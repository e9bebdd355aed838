//! One row type per table. The field names are the columns, in this order; the field docs give their meaning. Times
//! are nanoseconds, moments are unix nanoseconds; [ids](crate::ids) count from 1 and are valid within the run.

pub mod counter;
pub mod event;
mod values;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

pub use self::values::{Exit, LockKind, TaskState};
use crate::file_names::Table;
use crate::histogram::Histogram;
use crate::ids::{
    FrameId, JavaThreadId, MethodId, OsThreadId, SampledStackId, StackId, StatementId, ThreadId,
};

/// A row of one of the tables.
pub trait Row: Serialize + DeserializeOwned {
    /// The table that the row belongs to.
    const TABLE: Table;
    /// The columns, in order: the file's header line.
    const COLUMNS: &'static [&'static str];

    /// Whether a column may be missing from a file: earlier agents did not write it.
    fn is_optional(column: &str) -> bool {
        matches!(
            (Self::TABLE, column),
            (Table::Calls, "allocated_bytes") | (Table::LockWaits, "owner_stack")
        )
    }
}

/// Declares a row type, so that its fields and its header cannot differ.
macro_rules! row {
    (
        $(#[$doc:meta])*
        $name:ident in $table:ident {
            $($(#[$field_doc:meta])* $field:ident: $type:ty,)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
        }

        impl Row for $name {
            const TABLE: Table = Table::$table;
            const COLUMNS: &'static [&'static str] = &[$(stringify!($field)),*];
        }
    };
}

row! {
    /// Names a method.
    MethodRow in Methods {
        /// Method id.
        id: MethodId,
        /// The class loader: `boot`, `platform`, `app`, or its class and a number.
        loader: String,
        /// Class name with dots.
        class: String,
        /// Method name; a constructor is `<init>`.
        method: String,
        /// Descriptor as in the class file, `(I)V`.
        descriptor: String,
        /// Source file as the class file names it, or empty.
        source: String,
        /// First line of the method's code, or 0.
        line: u32,
    }
}

row! {
    /// Names a thread. Only threads with recorded calls are written.
    ThreadRow in Threads {
        /// Thread id of the run.
        id: ThreadId,
        /// `Thread.getId()`, or 0 if unknown.
        java_id: JavaThreadId,
        /// The kernel's thread id, or 0 for a virtual thread.
        os_id: OsThreadId,
        /// The thread's name when this row was written.
        name: String,
        /// `platform` or `virtual`.
        kind: String,
    }
}

row! {
    /// A call path: a chain of instrumented frames.
    StackRow in Stacks {
        /// Call path id.
        id: StackId,
        /// Call path of the caller, 0 for a root.
        parent: StackId,
        /// The method called last on this path; 0 stands for all paths that were not kept because there were too many
        /// or because they were too deep.
        method: MethodId,
    }
}

row! {
    /// A call at or over the threshold.
    CallRow in Calls {
        /// When the call began.
        start_ns: u64,
        /// Thread id.
        thread: ThreadId,
        /// Call path, which ends in this method.
        stack: StackId,
        /// Method id.
        method: MethodId,
        /// Duration; for an unfinished call, up to the moment of writing.
        total_ns: u64,
        /// Duration minus the time in instrumented callees.
        self_ns: u64,
        /// How the call ended.
        exit: Exit,
        /// What the thread allocated in it, if that is known: in outermost calls of platform threads.
        allocated_bytes: Option<u64>,
    }
}

row! {
    /// Exact statistics of all calls of a method that ended in an interval.
    StatsRow in Stats {
        /// When the interval began.
        start_ns: u64,
        /// Method id.
        method: MethodId,
        /// Calls that ended.
        calls: u64,
        /// Those that ended with an exception.
        throws: u64,
        /// Time in the method and its callees; in a recursion only the outermost call counts.
        total_ns: u64,
        /// Time in the method without its instrumented callees.
        self_ns: u64,
        /// The longest call.
        max_ns: u64,
        /// Durations of all calls.
        hist: Histogram,
    }
}

row! {
    /// What the agent did and lost in an interval, and gauges.
    CounterRow in Counters {
        /// When the interval began.
        start_ns: u64,
        /// Which counter; see [`counter`].
        name: String,
        /// Its increase in the interval; of a gauge, its value.
        value: u64,
    }
}

row! {
    /// What happened in a run. New files repeat the events that still hold.
    EventRow in Events {
        /// When it happened, also in a repeated row; if the clock was set back since then, when it was repeated.
        at_ns: u64,
        /// What happened; see [`event`].
        event: String,
        /// The class, with dots, if it is about one.
        class: String,
        /// The method, as `CLASS.METHODDESCRIPTOR`, if it is about one.
        method: String,
        /// The pattern, if it is about a pattern's methods.
        pattern: String,
        /// How many calls a second the method had.
        calls_per_s: Option<u64>,
        /// The average duration of these calls.
        mean_ns: Option<u64>,
        /// The threshold from now on.
        threshold_ns: Option<u64>,
        /// The reason.
        reason: String,
    }
}

row! {
    /// Names a frame of sampled stacks.
    FrameRow in Frames {
        /// Frame id.
        id: FrameId,
        /// `java`, `native` for a library, `kernel`, or `other` for threads without Java code and stacks that are not
        /// whole.
        kind: String,
        /// Class name with dots, or empty.
        class: String,
        /// Method name, or what else the frame is, in brackets.
        method: String,
        /// Descriptor as in the class file, or empty.
        descriptor: String,
        /// Source file as the class file names it, or empty.
        source: String,
    }
}

row! {
    /// A whole stack, with frames that are not instrumented.
    SampledStackRow in SampledStacks {
        /// Sampled stack id.
        id: SampledStackId,
        /// Sampled stack of the caller, 0 for a root.
        parent: SampledStackId,
        /// The frame on top.
        frame: FrameId,
    }
}

row! {
    /// Samples of a thread within a second that have the same stack.
    SampleRow in Samples {
        /// When the second began.
        start_ns: u64,
        /// Thread id.
        thread: ThreadId,
        /// `cpu`.
        kind: String,
        /// What the thread did: `java`, `native`, `vm`, `blocked`, or empty for threads that run no Java code.
        state: String,
        /// The CPU time that the samples stand for.
        weight_ns: u64,
        /// How many there are.
        samples: u64,
        /// Sampled stack id.
        sampled_stack: SampledStackId,
        /// Call path of instrumented methods, 0 for none.
        stack: StackId,
    }
}

row! {
    /// Exact statistics of all waits for locks of a class that ended in an interval.
    LockRow in Locks {
        /// When the interval began.
        start_ns: u64,
        /// What was waited for.
        kind: LockKind,
        /// Class of the lock's object, with dots; of a class object, its name and `.class`.
        class: String,
        /// Method id of the innermost instrumented call in progress, 0 for none.
        method: MethodId,
        /// Waits that ended.
        waits: u64,
        /// Their time.
        total_ns: u64,
        /// The longest wait.
        max_ns: u64,
        /// Durations of all waits.
        hist: Histogram,
    }
}

row! {
    /// A wait for a lock at or over the threshold of `lock`.
    LockWaitRow in LockWaits {
        /// When the wait began.
        start_ns: u64,
        /// Thread id of the one that waited.
        thread: ThreadId,
        /// What it waited for.
        kind: LockKind,
        /// Class of the lock's object, as in `locks.csv`.
        class: String,
        /// How long it waited.
        wait_ns: u64,
        /// Thread id of a thread that had the lock meanwhile, 0 if unknown.
        owner: ThreadId,
        /// Sampled stack id.
        sampled_stack: SampledStackId,
        /// Call path of instrumented methods, 0 for none.
        stack: StackId,
        /// Sampled stack id of the owner when the agent asked for it, if that is known.
        owner_stack: Option<SampledStackId>,
    }
}

row! {
    /// Names an SQL statement.
    StatementRow in Statements {
        /// Statement id.
        id: StatementId,
        /// URL of the database without secrets, or empty if it is unknown.
        url: String,
        /// The text with `?` for literals; `[unknown statement]`, or `[other statements]`.
        text: String,
    }
}

row! {
    /// Exact statistics of all executions of an SQL statement that ended in an interval.
    SqlRow in Sql {
        /// When the interval began.
        start_ns: u64,
        /// Statement id.
        statement: StatementId,
        /// Method id of the innermost instrumented call in progress, 0 for none.
        method: MethodId,
        /// Executions that ended.
        executions: u64,
        /// Those of them that threw.
        throws: u64,
        /// Their time.
        total_ns: u64,
        /// The longest.
        max_ns: u64,
        /// Durations of all of them.
        hist: Histogram,
    }
}

row! {
    /// An execution of an SQL statement at or over the threshold of `sql`.
    SlowSqlRow in SlowSql {
        /// When it began.
        start_ns: u64,
        /// Thread id.
        thread: ThreadId,
        /// Statement id.
        statement: StatementId,
        /// How long it took.
        total_ns: u64,
        /// How it ended.
        exit: Exit,
        /// The text with its literals, if the option `sql_literals` is on.
        text: String,
        /// Sampled stack id.
        sampled_stack: SampledStackId,
        /// Call path of instrumented methods, 0 for none.
        stack: StackId,
    }
}

row! {
    /// A profile task, at a change of its state. New files repeat the row of a task that has not ended.
    TaskRow in Tasks {
        /// When its state changed, also in a repeated row.
        at_ns: u64,
        /// The task's id, unique in the run.
        task: String,
        /// Its state.
        state: TaskState,
        /// Name of the endpoint.
        endpoint: String,
        /// Patterns of the endpoint's methods, separated by commas.
        methods: String,
        /// When it begins.
        start_ns: u64,
        /// How long it records.
        duration_ns: u64,
        /// How long a request must take.
        min_duration_ns: u64,
        /// Time between two snapshots of a request.
        dump_period_ns: u64,
        /// How many requests it records at most.
        max_samples: u32,
        /// How many it has recorded.
        requests: u32,
        /// Why it is in this state, and what it could not record; else empty.
        reason: String,
    }
}

row! {
    /// A request that a profile task recorded: an outermost call of its endpoint.
    TaskRequestRow in TaskRequests {
        /// When it began.
        start_ns: u64,
        /// The task's id.
        task: String,
        /// Its number in the task, from 1.
        request: u32,
        /// Thread id.
        thread: ThreadId,
        /// Call path, which ends in the endpoint.
        stack: StackId,
        /// How long it took.
        total_ns: u64,
        /// How it ended.
        exit: Exit,
        /// Its rows in `task_calls.csv`.
        calls: u32,
        /// Calls that have no row: too many, or the hour's log budget.
        calls_dropped: u64,
        /// Shorter calls have no rows and are not counted in `calls_dropped`.
        least_call_ns: u64,
    }
}

row! {
    /// A call in a recorded request, or the request itself.
    TaskCallRow in TaskCalls {
        /// When it began.
        start_ns: u64,
        /// The task's id.
        task: String,
        /// The request's number in the task.
        request: u32,
        /// Call path, which ends in the call.
        stack: StackId,
        /// Method id.
        method: MethodId,
        /// How long it took.
        total_ns: u64,
        /// The same without recorded and unrecorded callees.
        self_ns: u64,
        /// How it ended.
        exit: Exit,
    }
}

row! {
    /// Sampled objects that a thread allocated in a second, with the same stack.
    AllocationRow in Allocations {
        /// When the second began.
        start_ns: u64,
        /// Thread id.
        thread: ThreadId,
        /// Class of the objects, with dots: `byte[]`.
        class: String,
        /// The bytes that the samples stand for.
        bytes: u64,
        /// The objects that they stand for.
        objects: u64,
        /// How many samples there are.
        samples: u64,
        /// Sampled stack id.
        sampled_stack: SampledStackId,
        /// Call path of instrumented methods, 0 for none.
        stack: StackId,
    }
}

row! {
    /// Calls of a traced method that a thread began in a second, with the same stack.
    TraceRow in Traces {
        /// When the second began.
        start_ns: u64,
        /// Thread id.
        thread: ThreadId,
        /// Method id.
        method: MethodId,
        /// The calls that the samples stand for.
        calls: u64,
        /// How many samples there are.
        samples: u64,
        /// Sampled stack id: the method, and its callers.
        sampled_stack: SampledStackId,
        /// Call path of instrumented methods, that method included.
        stack: StackId,
    }
}

row! {
    /// Exact counts of exceptions of a class that left a method, in an interval.
    ExceptionRow in Exceptions {
        /// When the interval began.
        start_ns: u64,
        /// Method id.
        method: MethodId,
        /// Class of the exceptions, with dots; `[other classes]` beyond 100 of a method.
        class: String,
        /// Calls that they ended.
        thrown: u64,
        /// Of these, calls whose exception had left no instrumented call inside them: it came from the method itself or
        /// from a method that is not measured.
        began: u64,
    }
}

row! {
    /// The first exception of its class in an interval that began to leave instrumented calls in a method.
    ExceptionExampleRow in ExceptionExamples {
        /// When it left the method.
        start_ns: u64,
        /// Thread id.
        thread: ThreadId,
        /// Class of the exception, as in `exceptions.csv`.
        class: String,
        /// The exception's own message, cut to 500 characters; empty if it has none, or without `exception_messages`.
        message: String,
        /// Sampled stack id: the method that it left, and its callers.
        sampled_stack: SampledStackId,
        /// Call path of instrumented methods, that method included.
        stack: StackId,
    }
}

impl EventRow {
    /// An event without the fields that only some events have.
    #[must_use]
    pub fn new(at_ns: u64, event: &str) -> Self {
        Self {
            at_ns,
            event: event.to_owned(),
            class: String::new(),
            method: String::new(),
            pattern: String::new(),
            calls_per_s: None,
            mean_ns: None,
            threshold_ns: None,
            reason: String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The columns are those that docs/log-format.md promises.
    #[test]
    fn the_columns_of_version_1_stay() {
        let columns = |c: &[&str]| c.join(",");
        assert_eq!(columns(MethodRow::COLUMNS), "id,loader,class,method,descriptor,source,line");
        assert_eq!(columns(ThreadRow::COLUMNS), "id,java_id,os_id,name,kind");
        assert_eq!(columns(StackRow::COLUMNS), "id,parent,method");
        assert_eq!(
            columns(CallRow::COLUMNS),
            "start_ns,thread,stack,method,total_ns,self_ns,exit,allocated_bytes"
        );
        assert_eq!(
            columns(StatsRow::COLUMNS),
            "start_ns,method,calls,throws,total_ns,self_ns,max_ns,hist"
        );
        assert_eq!(columns(CounterRow::COLUMNS), "start_ns,name,value");
        assert_eq!(
            columns(EventRow::COLUMNS),
            "at_ns,event,class,method,pattern,calls_per_s,mean_ns,threshold_ns,reason"
        );
        assert_eq!(
            columns(LockRow::COLUMNS),
            "start_ns,kind,class,method,waits,total_ns,max_ns,hist"
        );
        assert_eq!(
            columns(LockWaitRow::COLUMNS),
            "start_ns,thread,kind,class,wait_ns,owner,sampled_stack,stack,owner_stack"
        );
        assert_eq!(columns(ExceptionRow::COLUMNS), "start_ns,method,class,thrown,began");
        assert_eq!(
            columns(TraceRow::COLUMNS),
            "start_ns,thread,method,calls,samples,sampled_stack,stack"
        );
        assert_eq!(
            columns(ExceptionExampleRow::COLUMNS),
            "start_ns,thread,class,message,sampled_stack,stack"
        );
        assert_eq!(columns(StatementRow::COLUMNS), "id,url,text");
        assert_eq!(
            columns(SqlRow::COLUMNS),
            "start_ns,statement,method,executions,throws,total_ns,max_ns,hist"
        );
        assert_eq!(
            columns(SlowSqlRow::COLUMNS),
            "start_ns,thread,statement,total_ns,exit,text,sampled_stack,stack"
        );
        assert_eq!(
            columns(TaskRow::COLUMNS),
            "at_ns,task,state,endpoint,methods,start_ns,duration_ns,min_duration_ns,dump_period_ns,max_samples,\
             requests,reason"
        );
        assert_eq!(
            columns(TaskRequestRow::COLUMNS),
            "start_ns,task,request,thread,stack,total_ns,exit,calls,calls_dropped,least_call_ns"
        );
        assert_eq!(
            columns(TaskCallRow::COLUMNS),
            "start_ns,task,request,stack,method,total_ns,self_ns,exit"
        );
    }
}
